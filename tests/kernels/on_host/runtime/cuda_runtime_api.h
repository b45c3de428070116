// Declares the calls of CUDA's runtime that the twins and their tests make, under the name of NVIDIA's header, on
// memory of the host. Work is done at once, and a stream is only a name that a launch must know.
#pragma once

#include <cstddef>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorLaunchFailure = 719
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDefault = 4 };
inline constexpr unsigned cudaStreamNonBlocking = 1;

/// Allocates exactly `bytes`, so that AddressSanitizer reports an access beyond them.
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
/// Allocates and frees at once: there is no pool that keeps memory.
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t on);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t on);
using cudaMemPool_t = struct CUmemPoolHandle_st*;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t on);
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t on);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t on);
/// Returns a kernel's failure once; afterwards launches are possible again, unlike on a device.
cudaError_t cudaStreamSynchronize(cudaStream_t on);

cudaError_t cudaGetLastError();
/// Returns a text; that of a launch failure names the block, the thread and the rule that was broken.
const char* cudaGetErrorString(cudaError_t error);
