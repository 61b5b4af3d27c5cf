"""Names hand-written digits with the model of this folder: python run.py [PICTURE.npy]"""
import os
import sys

import numpy as np
import tessera

here = os.path.dirname(os.path.abspath(__file__))
model = tessera.compile(os.path.join(here, "digits.onnx"), batch=1)
picture = np.load(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "digit.npy"))
probabilities = model(picture)[0]
print(f"{probabilities.argmax()} with probability {probabilities.max():.3f}")
