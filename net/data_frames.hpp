// Defines the frames on a connection that moves transfers: a head of fixed size, followed by `bytes` bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/wire/byte_mover.hpp"

namespace troupe::net {

enum class data_kind : uint32_t {
  ready = 1,  ///< the receiver has memory for the transfer; `number`: its size in bytes
  chunk,      ///< part of a transfer: `bytes` bytes, from byte `number` of the transfer on
  note,
  unequal,  ///< the sender does not send, as it has `number` bytes and the receiver expects another number
};

struct data_frame {
  data_kind kind = data_kind::note;
  uint32_t bytes = 0;  ///< number of bytes (of a note or a chunk) that follow this head
  fabric::transfer_name name{};
  uint64_t number = 0;
};
static_assert(sizeof(data_frame) == 40);

/// Size in bytes of the largest part of a transfer that is sent before a part of another transfer.
inline constexpr size_t chunk_bytes_max = size_t{256} << 10;

}  // namespace troupe::net
