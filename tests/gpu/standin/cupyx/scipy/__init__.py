import cupyx

special, linalg, fft, sparse = (cupyx._lazily(f"cupyx.scipy.{name}") for name in ("special", "linalg", "fft", "sparse"))
