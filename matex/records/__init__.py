"""What a run did: events while it happens, and what is made of them at its end."""
