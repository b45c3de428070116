// Tests deliberate mistakes in the order of a device's work, each next to the correct order: with late streams every
// mistake causes wrong numbers, and the correct order causes none.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "device/memory.hpp"
#include "device/stream.hpp"
#include "kernels/operations.hpp"
#include "models/segment/torch_values.hpp"
#include "tests/far/late.hpp"

BOOST_AUTO_TEST_SUITE(planted)

using namespace troupe;

namespace {

constexpr uint64_t count = 64, bytes = count * sizeof(float);
const device::device_id on_far{device::device_kind::cuda};
enum class way : uint8_t { right, wrong };

device::memory taken(device::tier where) {
  auto made = device::memory::allocate(on_far, where, bytes);
  if (!made) throw std::runtime_error(made.error().text);
  return std::move(*made);
}
device::memory on_device() { return taken(device::tier::device); }

std::span<float> floats(const device::memory& m) { return {reinterpret_cast<float*>(m.data()), count}; }

device::memory pinned(float x) {
  device::memory out = taken(device::tier::pinned);
  std::ranges::fill(floats(out), x);
  return out;
}

bool all_are(const device::memory& m, float x) {
  return std::ranges::all_of(floats(m), [x](float y) { return y == x; });
}

/// Copies with a kernel on the calling thread's stream.
void copy_by_kernel(const std::byte* from, std::byte* to) {
  kernels::operations_of(on_far).cast(from, core::dtype::f32, to, core::dtype::f32, count);
}

at::Tensor torch_memory() { return at::empty({count}, at::dtype(at::kFloat).device(at::kCUDA, 0)); }

/// Checks that `f(way)` returns true for the correct order with all seeds, and false for the wrong order with at least
/// one.
void check(const std::function<bool(way)>& f) {
  int noticed = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const far::late_device late(seed);
    BOOST_TEST(f(way::right), "seed " << seed);
    noticed += f(way::wrong) ? 0 : 1;
  }
  BOOST_TEST(noticed > 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_pinned_buffer_is_filled_again_before_its_copy_is_over) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0), there = on_device();
    device::stream s(on_far);
    device::event copied;
    s.copy(there.data(), from.data(), bytes);
    s.record(copied);
    if (w == way::right) copied.finish();
    std::ranges::fill(floats(from), 2.0F);
    s.copy(out.data(), there.data(), bytes);
    s.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(memory_of_the_device_is_freed_before_a_kernel_has_read_it) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0), result = on_device();
    std::optional there = on_device();
    auto& s = device::stream::current(on_far);
    s.copy(there->data(), from.data(), bytes);
    copy_by_kernel(there->data(), result.data());
    if (w == way::right) s.finish();
    there.reset();
    s.copy(out.data(), result.data(), bytes);
    s.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(pinned_memory_is_freed_before_its_copy_is_over) {
  check([](way w) {
    const auto out = pinned(0), there = on_device();
    std::optional from = pinned(1);
    device::stream s(on_far);
    s.copy(there.data(), from->data(), bytes);
    if (w == way::right) s.finish();
    from.reset();
    s.copy(out.data(), there.data(), bytes);
    s.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(the_host_reads_a_result_without_a_wait) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0), there = on_device();
    device::stream s(on_far);
    s.copy(there.data(), from.data(), bytes);
    s.copy(out.data(), there.data(), bytes);
    if (w == way::right) s.finish();
    const bool good = all_are(out, 1);
    s.finish();
    return good;
  });
}

BOOST_AUTO_TEST_CASE(the_host_waits_for_another_stream_than_that_of_the_work) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0);
    device::stream works(on_far), idles(on_far);
    works.copy(out.data(), from.data(), bytes);
    (w == way::right ? works : idles).finish();
    const bool good = all_are(out, 1);
    works.finish();
    return good;
  });
}

BOOST_AUTO_TEST_CASE(a_kernel_of_backward_runs_on_the_stream_of_its_own_thread) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0), there = on_device(), result = on_device();
    auto& forward = device::stream::current(on_far);
    forward.copy(there.data(), from.data(), bytes);
    std::thread([&] {
      std::optional<device::current_stream> in_order;
      if (w == way::right) in_order.emplace(forward);
      copy_by_kernel(there.data(), result.data());
    }).join();
    forward.copy(out.data(), result.data(), bytes);
    forward.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(torch_computes_on_another_stream_than_the_kernels_of_its_thread) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0);
    const at::Tensor there = torch_memory();
    auto& mine = device::stream::current(on_far);
    mine.copy(models::bytes_in(there), from.data(), bytes);
    device::stream other(on_far);
    std::optional<device::current_stream> moved;
    if (w == way::wrong) moved.emplace(other);
    there.add_(1);
    moved.reset();
    mine.copy(out.data(), models::bytes_of(there), bytes);
    mine.finish();
    return all_are(out, 2);
  });
}

BOOST_AUTO_TEST_CASE(an_event_is_recorded_before_the_work) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0), there = on_device();
    device::stream writes(on_far), reads(on_far);
    device::event written;
    if (w == way::wrong) writes.record(written);
    writes.copy(there.data(), from.data(), bytes);
    if (w == way::right) writes.record(written);
    reads.wait(written);
    reads.copy(out.data(), there.data(), bytes);
    reads.finish();
    writes.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(an_event_is_waited_for_before_it_is_recorded) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0), there = on_device();
    device::stream writes(on_far), reads(on_far);
    device::event written;
    if (w == way::wrong) reads.wait(written);
    writes.copy(there.data(), from.data(), bytes);
    writes.record(written);
    if (w == way::right) reads.wait(written);
    reads.copy(out.data(), there.data(), bytes);
    reads.finish();
    writes.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(an_event_is_recorded_again_elsewhere_before_somebody_has_waited_for_it) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0), there = on_device();
    device::stream writes(on_far), reads(on_far), idles(on_far);
    device::event at;
    writes.copy(there.data(), from.data(), bytes);
    writes.record(at);
    if (w == way::right) reads.wait(at);
    idles.record(at);
    if (w == way::wrong) reads.wait(at);
    reads.copy(out.data(), there.data(), bytes);
    reads.finish();
    writes.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_stream_reads_what_another_has_not_written_yet) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0), there = on_device();
    device::stream writes(on_far), reads(on_far);
    device::event written;
    writes.copy(there.data(), from.data(), bytes);
    writes.record(written);
    if (w == way::right) reads.wait(written);
    reads.copy(out.data(), there.data(), bytes);
    reads.finish();
    writes.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_stream_overwrites_what_another_has_not_read_yet) {
  check([](way w) {
    const auto first = pinned(1), second = pinned(2), out = pinned(0), there = on_device();
    device::stream writes(on_far), reads(on_far);
    device::event written, read;
    writes.copy(there.data(), first.data(), bytes);
    writes.record(written);
    reads.wait(written);
    reads.copy(out.data(), there.data(), bytes);
    reads.record(read);
    if (w == way::right) writes.wait(read);
    writes.copy(there.data(), second.data(), bytes);
    writes.finish();
    reads.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_tensor_is_freed_while_another_stream_reads_it) {
  check([](way w) {
    const auto from = pinned(1), out = pinned(0);
    at::Tensor there = torch_memory();
    auto& mine = device::stream::current(on_far);
    device::stream reads(on_far);
    device::event written, read;
    mine.copy(models::bytes_in(there), from.data(), bytes);
    mine.record(written);
    reads.wait(written);
    reads.copy(out.data(), models::bytes_of(there), bytes);
    reads.record(read);
    if (w == way::right) mine.wait(read);
    there.reset();
    mine.finish();
    reads.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_CASE(a_sum_begins_in_memory_that_nobody_has_cleared) {
  check([](way w) {
    const auto out = pinned(0);
    const at::Tensor sum = torch_memory();
    auto& mine = device::stream::current(on_far);
    if (w == way::right) sum.zero_();
    sum.add_(1);
    mine.copy(out.data(), models::bytes_of(sum), bytes);
    mine.finish();
    return all_are(out, 1);
  });
}

BOOST_AUTO_TEST_SUITE_END()
