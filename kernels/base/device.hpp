// TROUPE_HOST_DEVICE marks functions that are compiled for the CPU and, in CUDA sources, for the device as well, so
// that the CPU kernels and the CUDA kernels share one definition of each formula.
#pragma once

#ifdef __CUDACC__
#define TROUPE_HOST_DEVICE __host__ __device__
#else
#define TROUPE_HOST_DEVICE
#endif
