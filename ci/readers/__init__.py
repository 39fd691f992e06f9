"""Files of all formats, sound and damaged, read by matex and by other readers."""
