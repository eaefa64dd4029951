"""Settings that libraries read while they are imported: import this module first."""

import os

# Everything that is compared lies on this machine; nothing may be looked up elsewhere.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Notes go to stderr line by line; bars would tear them.
os.environ.setdefault("TQDM_DISABLE", "1")
# bitsandbytes compiles some functions for each shape that it meets; as they stand they compute the same.
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
# OpenMP's threads otherwise burn their time slice waiting for each other, which on a busy machine costs ten times the work itself.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
