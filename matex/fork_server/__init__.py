"""Fork server of a host, which has imported TensorFlow, and its client, a newcomer's start."""
