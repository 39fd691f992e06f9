"""The strategies layer: vectors moved by the strategies of matex, without TensorFlow."""
