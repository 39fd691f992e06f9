"""The units of a model's graph, their readers, and passes through its layers."""
