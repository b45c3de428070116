// Rotates one pair of a head's elements, shared by the scalar twin, the fp64 variant and the CUDA kernel; the SIMD loop
// uses the same operations in the same order.
#pragma once

#include "kernels/base/device.hpp"

namespace troupe::kernels {

template <class T>
struct turned_pair {
  T first, second;
};

template <class T>
TROUPE_HOST_DEVICE turned_pair<T> turned(T first, T second, T cosine, T sine) {
  return {first * cosine - second * sine, second * cosine + first * sine};
}

}  // namespace troupe::kernels
