"""The commands of ``matex`` beside ``run``."""
