// A CUDA device that is the CPU behind a wall: it is registered as devices of kind cuda are, its kernels are the CPU's,
// and what touches its memory from outside ends the program with a report (tests/far/arena.hpp). Its streams are prompt
// or late (tests/far/streams.hpp). Owns its tables.
#pragma once

#include <cstdint>

#include "models/cuda/use.hpp"

namespace troupe::far {

/// Registers it, with one device.
void provide();

/// From now on Torch finds no memory of the device for its operations, or again does.
void refuse_memory(bool refused);

struct asked {                     ///< of Torch as a whole, by sessions
  models::cuda_settings settings;  ///< the last
  uint64_t kernels = 0;            ///< how many there had been by then
  uint32_t index = 0;
  uint64_t bytes = 0;  ///< Torch's share
};
const asked& last_asked();

struct counts {            ///< since `provide`
  uint64_t kernels = 0;    ///< calls of the table of kernels and products
  uint64_t torch = 0;      ///< Torch's own operations
  uint64_t copies = 0;     ///< copies of streams
  uint64_t uploads = 0;    ///< Torch's copies from the host, each of which a real device waits for
  uint64_t downloads = 0;  ///< Torch's copies to the host, likewise
  uint64_t items = 0;      ///< single numbers asked for by the host
  uint64_t waits = 0;      ///< of the host, for a stream or an event, whether or not it was over
  /// Those that found work to be done, on threads that ask for products.
  uint64_t compute_waits = 0;
  uint64_t bytes_up = 0;  ///< by copies of streams from the host's memory to the device's
  uint64_t bytes_down = 0;
};
counts counted();

}  // namespace troupe::far
