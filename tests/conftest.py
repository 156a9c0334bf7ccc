import os

# Tests run side by side; threads of several processes that wait for one another are slower than one each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
