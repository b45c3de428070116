#include "fabric/movement.hpp"

#include <algorithm>
#include <vector>

#include "device/stream.hpp"
#include "fabric/layout.hpp"
#include "kernels/operations.hpp"

namespace troupe::fabric {
namespace {

/// Bytes copied between two checks of `stop`; glibc copies runs of this size at full speed.
constexpr uint64_t copy_chunk_bytes = uint64_t{1} << 20;

/// Small enough that a chunk's sum is still in the second-level cache when it is copied to the peers.
constexpr uint64_t reduce_chunk_elements = uint64_t{1} << 15;

/// One member's share of an operation, with its operands.
struct share {
  const kernels::operations& device;
  device::stream& stream;
  const request& r;
  std::span<const member_memory> members;
  uint32_t rank;
  const std::atomic<bool>& stop;

  [[nodiscard]] bool stopped() const { return stop.load(std::memory_order_relaxed); }

  void copy_pieces() const {
    const uint64_t size = core::size_of(r.input_type);
    for (const piece& p : r.pieces) {
      if (p.count == 0 || !writes_output(r.op, p, rank)) continue;
      const std::byte* from = members[p.owner].input + p.from * size;
      std::byte* to = members[rank].output + p.to * size;
      if (from == to) continue;
      const uint64_t bytes = p.count * size;
      for (uint64_t done = 0; done < bytes; done += copy_chunk_bytes) {
        if (stopped()) return;
        stream.copy(to + done, from + done, std::min(copy_chunk_bytes, bytes - done));
      }
    }
  }

  /// Elements [first, first + count) of piece `p`, summed into the outputs of the operation.
  void reduce_chunk(const piece& p, uint64_t first, uint64_t count, std::vector<const std::byte*>& inputs) const {
    const uint64_t in_size = core::size_of(r.input_type);
    const uint64_t out_size = core::size_of(r.output_type);
    for (size_t m = 0; m < members.size(); ++m) inputs[m] = members[m].input + (p.from + first) * in_size;
    const auto output = [&](size_t m) { return members[m].output + (p.to + first) * out_size; };
    const kernels::reduce_options options{.input = r.input_type,
                                          .communication = r.communication,
                                          .output = r.output_type,
                                          .input_scale = r.input_scale,
                                          .accumulate = r.accumulate};
    device.sum_in_rank_order(inputs, output(p.owner), count, options);
    if (r.op != operation::all_reduce) return;
    for (size_t m = 0; m < members.size(); ++m) {
      if (m == p.owner) continue;
      // The sums that are added to may differ between members, so their results may too.
      if (r.accumulate)
        device.sum_in_rank_order(inputs, output(m), count, options);
      else
        stream.copy(output(m), output(p.owner), count * out_size);
    }
  }

  void reduce_pieces() const {
    std::vector<const std::byte*> inputs(members.size());
    for (const piece& p : r.pieces) {
      if (p.owner != rank) continue;
      for (uint64_t first = 0; first < p.count; first += reduce_chunk_elements) {
        if (stopped()) return;
        reduce_chunk(p, first, std::min(reduce_chunk_elements, p.count - first), inputs);
      }
    }
  }
};

}  // namespace

void do_share(device::device_id device, const request& r, std::span<const member_memory> members, uint32_t rank,
              const std::atomic<bool>& stop) {
  auto& stream = device::stream::current(device);
  const share mine{kernels::operations_of(device), stream, r, members, rank, stop};
  if (is_reduction(r.op))
    mine.reduce_pieces();
  else
    mine.copy_pieces();
  stream.finish();  // other members rely on it being done
}

}  // namespace troupe::fabric
