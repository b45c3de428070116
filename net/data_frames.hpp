// What goes over a connection that moves bytes: a head of fixed size, and its bytes behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/wire/byte_mover.hpp"

namespace troupe::net {

enum class data_kind : uint32_t {
  ready = 1,  ///< this transfer's memory is there; `number`: its bytes
  chunk,      ///< `bytes` of a transfer from byte `number` on
  note,
  unequal,  ///< the sender has `number` bytes for what was said to be ready: it does not send
};

struct data_frame {
  data_kind kind = data_kind::note;
  uint32_t bytes = 0;  ///< behind this head
  fabric::transfer_name name{};
  uint64_t number = 0;
};
static_assert(sizeof(data_frame) == 40);

/// The longest part of a transfer that is sent before another has its turn.
inline constexpr size_t chunk_bytes_max = size_t{256} << 10;

}  // namespace troupe::net
