// Tests the shim that compiles CUDA kernels for the host: its functions behave like the device's, the seed determines
// the order of threads, and each deliberately wrong kernel is reported with its error.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/on_host/machine.hpp"
#include "tests/kernels/on_host/planted.hpp"

namespace troupe::cuda_on_host {
BOOST_AUTO_TEST_SUITE(shim)

namespace {

using kernels::cuda::tests::device_array;
using kernels::cuda::tests::test_stream;

/// Returns the error text of the last launch; if it has none, the error text of the stream.
std::string ending() {
  const cudaError_t launched = cudaGetLastError(), done = cudaStreamSynchronize(test_stream());
  return cudaGetErrorString(launched != cudaSuccess ? launched : done);
}

/// The stderr output of a child process, and whether the process ended with an error.
struct last_words {
  std::string text;
  bool failed = false;
};
template <class F>
last_words in_child(F&& work) {
  std::array<int, 2> ends{};
  BOOST_REQUIRE_EQUAL(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    work();
    ::_exit(0);
  }
  ::close(ends[1]);
  last_words out;
  std::array<char, 4096> some;
  for (ssize_t n = 0; (n = ::read(ends[0], some.data(), some.size())) > 0;)
    out.text.append(some.data(), static_cast<size_t>(n));
  ::close(ends[0]);
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  out.failed = status != 0;
  return out;
}

void require_found(const last_words& got, const char* kind, const char* place) {
  BOOST_TEST(got.failed);
  BOOST_TEST(got.text.find(kind) != std::string::npos, got.text);
  BOOST_TEST(got.text.find(place) != std::string::npos, got.text);
}

/// Returns the order in which the threads of `blocks` blocks run under `seed`.
std::vector<uint32_t> coming(uint64_t seed, unsigned blocks) {
  order_by(seed);
  device_array<uint32_t> order(std::vector<uint32_t>(blocks * 64)), next(std::vector<uint32_t>(1));
  planted::coming(order.data(), next.data(), blocks, test_stream());
  return order.back();
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_access_one_element_too_far_is_found_with_its_line) {
  const std::vector<float> values(77, 1.5F);
  device_array<float> x(values), y(std::vector<float>(77));
  planted::copy(x.data(), y.data(), 77, 0, test_stream());
  BOOST_TEST(y.back() == values, boost::test_tools::per_element());
  device_array<float> longer(std::vector<float>(78));
  require_found(in_child([&] { planted::copy(x.data(), longer.data(), 77, 1, test_stream()); }), "heap-buffer-overflow",
                "planted.cu:10");
  device_array<float> gone(values);
  const float* const before = gone.data();
  { const device_array<float> freed(std::move(gone)); }
  require_found(in_child([&] { planted::copy(before, y.data(), 77, 0, test_stream()); }), "heap-use-after-free",
                "planted.cu:10");
}

BOOST_AUTO_TEST_CASE(a_pack_that_is_not_aligned_is_found_with_its_line) {
  device_array<float> x(std::vector<float>(64)), y(std::vector<float>(64), 1);
  require_found(in_child([&] { planted::copy_packs(x.data(), y.data(), 64, test_stream()); }), "misaligned address",
                "planted.cu:18");
}

BOOST_AUTO_TEST_CASE(barriers_make_sums_independent_of_the_order_and_a_missing_one_shows) {
  std::set<uint64_t> without;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    order_by(seed);
    device_array<uint64_t> out(std::vector<uint64_t>(2));
    planted::shared_sum(out.data(), true, test_stream());
    BOOST_TEST(out.back() == std::vector<uint64_t>(2, 256 * 257 / 2), boost::test_tools::per_element());
    planted::shared_sum(out.data(), false, test_stream());
    for (const auto sum : out.back()) without.insert(sum);
  }
  BOOST_TEST(without.size() > 1U);
}

BOOST_AUTO_TEST_CASE(dynamic_shared_memory_that_a_block_never_wrote_is_no_number) {
  device_array<double> out(std::vector<double>(2));
  planted::forgetful_sum(out.data(), test_stream());
  for (const double sum : out.back()) BOOST_TEST_CONTEXT("sum " << sum) BOOST_TEST(std::isnan(sum));
}

BOOST_AUTO_TEST_CASE(shuffles_of_teams_and_warps_bring_the_numbers_of_the_lanes_named) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    order_by(seed);
    device_array<uint32_t> out(std::vector<uint32_t>(64 * 6));
    planted::shuffles(out.data(), test_stream());
    const auto got = out.back();
    for (uint32_t t = 0; t < 64; ++t) {
      BOOST_TEST_INFO_SCOPE("t " << t);
      const uint32_t lane = t % 32, warp = t - lane;
      uint32_t thirds = 0;
      for (uint32_t l = 0; l < 32; ++l) thirds |= (warp + l) % 3 == 0 ? 1U << l : 0U;
      const std::array<uint32_t, 6> wanted = {
          t ^ 3, lane % 8 + 5 < 8 ? t + 5 : t, lane % 16 >= 2 ? t - 2 : t, warp + lane / 16 * 16 + 9, thirds, t ^ 31};
      for (size_t k = 0; k < wanted.size(); ++k) BOOST_REQUIRE_EQUAL(got[t * 6 + k], wanted[k]);
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_that_a_device_would_wait_for_in_vain_are_named) {
  planted::half_a_barrier(test_stream());
  const std::string barrier = ending();
  BOOST_TEST(barrier.find("32 of 64 threads wait at __syncthreads, which the others never reach") != std::string::npos,
             barrier);
  planted::half_a_shuffle(test_stream());
  BOOST_TEST(ending() == "block 0: 16 of 32 lanes wait at __shfl_xor_sync, which the others never reach");
  planted::two_words(test_stream());
  const std::string words = ending();
  BOOST_TEST(words.find("lanes of one mask call __s") != std::string::npos, words);
  planted::unnamed_lane(test_stream());
  const std::string unnamed = ending();
  BOOST_TEST(unnamed.ends_with("a shuffle reads a lane that its mask does not name"), unnamed);
  planted::plain(test_stream());
  BOOST_TEST(ending() == "no error");
}

BOOST_AUTO_TEST_CASE(launches_that_a_device_refuses_are_refused) {
  planted::too_large(test_stream());
  BOOST_TEST(ending() == "invalid configuration argument");
  planted::plain(nullptr);
  BOOST_TEST(ending() == "invalid resource handle");
  device_array<uint32_t> number(std::vector<uint32_t>(1));
  planted::coming(number.data(), number.data(), 0, test_stream());
  BOOST_TEST(ending() == "invalid configuration argument");
}

BOOST_AUTO_TEST_CASE(the_order_of_blocks_and_threads_is_drawn_from_the_seed) {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    const auto order = coming(seed, 3);
    BOOST_TEST(order == coming(seed, 3), boost::test_tools::per_element());
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (uint32_t t = 0; t < sorted.size(); ++t) BOOST_REQUIRE_EQUAL(sorted[t], t);
    orders.insert(order);
  }
  BOOST_TEST(orders.size() == 10U);
  order_by(1);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::cuda_on_host
