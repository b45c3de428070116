// TROUPE_HOST_DEVICE marks functions that the scalar twins and the CUDA kernels share, so that a formula is written
// once.
#pragma once

#ifdef __CUDACC__
#define TROUPE_HOST_DEVICE __host__ __device__
#else
#define TROUPE_HOST_DEVICE
#endif
