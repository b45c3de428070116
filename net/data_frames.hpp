// Defines the bytes on a connection that moves transfers: a head of fixed size, followed by its bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/wire/byte_mover.hpp"

namespace troupe::net {

enum class data_kind : uint32_t {
  ready = 1,  ///< memory for this transfer is ready at the receiver; `number`: its size in bytes
  chunk,      ///< `bytes` bytes of a transfer, from its byte `number` on
  note,
  unequal,  ///< the sender has `number` bytes, not as many as the receiver is ready for: it does not send
};

struct data_frame {
  data_kind kind = data_kind::note;
  uint32_t bytes = 0;  ///< number of bytes that follow this head of a frame
  fabric::transfer_name name{};
  uint64_t number = 0;
};
static_assert(sizeof(data_frame) == 40);

/// Bytes of the longest part of a transfer that is sent before another transfer has its turn.
inline constexpr size_t chunk_bytes_max = size_t{256} << 10;

}  // namespace troupe::net
