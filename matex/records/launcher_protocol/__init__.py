"""Signs and requests that ranks and their launcher give each other in files and sockets."""
