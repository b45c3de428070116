#include "fabric/movement.hpp"

#include <algorithm>
#include <vector>

#include "device/stream.hpp"
#include "fabric/layout.hpp"
#include "kernels/operations.hpp"

namespace troupe::fabric {
namespace {

struct chunk_sizes {
  /// Bytes copied between two checks of `stop`; glibc copies runs of this size at full speed.
  uint64_t copied_bytes = uint64_t{1} << 20;
  /// Elements of a chunk of a sum: few enough that the sum is still in the second-level cache when it is copied to the
  /// peers.
  uint64_t summed_elements = uint64_t{1} << 15;
};

/// Returns the chunk sizes of a device. An asynchronous device gets a whole piece per request, because a request takes
/// longer than the copy or the sum of one chunk.
chunk_sizes chunks_of(device::device_id device) {
  constexpr uint64_t all = ~uint64_t{0};
  return device.kind == device::device_kind::cpu ? chunk_sizes{} : chunk_sizes{all, all};
}

/// The work of one member of a communicator for a collective: copies pieces to its output, or sums the inputs of all
/// members there. Used by one thread, until the work is done or `stop` is set.
struct share {
  const kernels::operations& device;
  device::stream& stream;
  chunk_sizes chunks;
  const request& r;
  std::span<const member_memory> members;
  uint32_t rank;
  const std::atomic<bool>& stop;

  [[nodiscard]] bool stopped() const { return stop.load(std::memory_order_relaxed); }

  void copy_pieces() const {
    const uint64_t size = core::size_of(r.input_type);
    for (const piece& p : r.pieces) {
      if (p.count == 0 || !writes_output(r.op, p, rank)) continue;
      const std::byte* from = members[p.owner].input + begin_in_input(r.op, p, rank) * size;
      std::byte* to = members[rank].output + p.to * size;
      if (from == to) continue;
      const uint64_t bytes = p.count * size;
      for (uint64_t done = 0; done < bytes;) {
        if (stopped()) return;
        const uint64_t chunk = std::min(chunks.copied_bytes, bytes - done);
        stream.copy(to + done, from + done, chunk);
        done += chunk;
      }
    }
  }

  /// Appends the addresses that the sum of piece `p` is written to.
  void add_outputs(const piece& p, std::vector<std::byte*>& to) const {
    const uint64_t at = p.to * core::size_of(r.output_type);
    to.push_back(members[p.owner].output + at);
    if (r.op != operation::all_reduce) return;
    for (size_t m = 0; m < members.size(); ++m)
      if (m != p.owner) to.push_back(members[m].output + at);
  }

  /// Sums elements [chunk.first, chunk.first + chunk.count) of a range of pieces over all members. The range begins at
  /// element `from` of every input; `to` has the address of the range in every output that gets the sum. `inputs` is
  /// scratch space for one address per member.
  void reduce_chunk(uint64_t from, owned_part chunk, std::span<std::byte* const> to,
                    std::vector<const std::byte*>& inputs) const {
    const uint64_t in_size = core::size_of(r.input_type);
    const uint64_t out_size = core::size_of(r.output_type);
    for (size_t m = 0; m < members.size(); ++m) inputs[m] = members[m].input + (from + chunk.first) * in_size;
    const auto output = [&](size_t k) { return to[k] + chunk.first * out_size; };
    const kernels::reduce_options options{.input = r.input_type,
                                          .communication = r.communication,
                                          .output = r.output_type,
                                          .input_scale = r.input_scale,
                                          .accumulate = r.accumulate};
    device.sum_in_rank_order(inputs, output(0), chunk.count, options);
    for (size_t k = 1; k < to.size(); ++k) {
      // Outputs may hold different values before the call. With `accumulate` each gets its own addition, not a copy.
      if (r.accumulate)
        device.sum_in_rank_order(inputs, output(k), chunk.count, options);
      else
        stream.copy(output(k), output(0), chunk.count * out_size);
    }
  }

  void reduce_pieces() const {
    std::vector<const std::byte*> inputs(members.size());
    std::vector<std::byte*> to;
    for (size_t first = 0, end = 0; first < r.pieces.size(); first = end) {
      end = end_of_range(r.op, r.pieces, first);
      for (size_t mine = first; mine < end; ++mine) {
        if (r.pieces[mine].owner != rank) continue;
        to.clear();
        for (size_t i = first; i < end; ++i) add_outputs(r.pieces[i], to);
        const owned_part own = part_of(r.pieces[mine].count, end - first, mine - first);
        for (uint64_t done = 0; done < own.count;) {
          if (stopped()) return;
          const owned_part chunk{own.first + done, std::min(chunks.summed_elements, own.count - done)};
          reduce_chunk(r.pieces[mine].from, chunk, to, inputs);
          done += chunk.count;
        }
      }
    }
  }
};

}  // namespace

core::result<void> do_share(device::device_id device, const request& r, std::span<const member_memory> members,
                            uint32_t rank, const std::atomic<bool>& stop) {
  auto& stream = device::stream::current(device);
  const share mine{kernels::operations_of(device), stream, chunks_of(device), r, members, rank, stop};
  if (is_reduction(r.op))
    mine.reduce_pieces();
  else
    mine.copy_pieces();
  if (device.kind == device::device_kind::cpu) return {};
  return stream.finish();  // waits, because other members may use the results when this function has returned
}

}  // namespace troupe::fabric
