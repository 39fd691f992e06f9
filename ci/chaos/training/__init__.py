"""The full layer: small models trained by `matex run`."""
