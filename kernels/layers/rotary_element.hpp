// Rotation of one pair of a head's elements, called by the scalar CPU code, the fp64 code and the CUDA kernel; the SIMD
// loop uses the same operations in the same order, so its bits are equal.
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
