// Tests device/cuda on a machine that a fake of CUDA's runtime simulates: each missing part and each failure is one
// sentence that names it. The suites of memory and streams run on this device, too.
#include "device/cuda/backend.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "device/cuda/faults.hpp"
#include "tests/check_ok.hpp"
#include "tests/device/devices.hpp"

namespace troupe::device::tests {

BOOST_AUTO_TEST_SUITE(cuda)

namespace {

constexpr device_id gpu{device_kind::cuda};

struct fresh_machine {
  fresh_machine() {
    provide_fake_cuda();
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  ~fresh_machine() {
    fake() = {};
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
};

void check_refused(const std::string& wanted) {
  const auto said = check(gpu);
  BOOST_REQUIRE_MESSAGE(!said, "nothing was refused, wanted: " << wanted);
  BOOST_TEST((said.error().kind == core::error_kind::limit));
  BOOST_TEST(said.error().text == "device cuda:0: " + wanted);
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_machine_with_driver_and_gpu_is_taken, fresh_machine) {
  BOOST_TEST(check(gpu).has_value());
  fake().driver = 13000;  // the driver also runs later minor versions of the runtime
  fake().runtime = 13050;
  BOOST_TEST(check(gpu).has_value());
  const auto beyond = check({device_kind::cuda, 1});
  BOOST_REQUIRE(!beyond);
  BOOST_TEST(beyond.error().text ==
             "device cuda:1: wanted cuda.devices with an index below 1, the number of GPUs that this process sees "
             "(CUDA_VISIBLE_DEVICES hides others)");
}

BOOST_FIXTURE_TEST_CASE(a_machine_without_a_driver_is_told_which_one_to_install, fresh_machine) {
  fake().driver = 0;
  fake().start = cudaErrorInsufficientDriver;
  check_refused(
      "no NVIDIA driver is loaded: install one for CUDA 13.0 or later (release 580 or later), or set device: cpu");
}

BOOST_FIXTURE_TEST_CASE(a_driver_that_is_too_old_is_named_with_the_one_that_is_wanted, fresh_machine) {
  fake().driver = 12040;
  check_refused(
      "the NVIDIA driver is too old: it supports CUDA 12.4; install one for CUDA 13.0 or later (release 580 or later), "
      "or set device: cpu");
  fake().driver = 13000;
  fake().start = cudaErrorInsufficientDriver;
  check_refused(
      "the NVIDIA driver is too old: it supports CUDA 13.0; install one for CUDA 13.0 or later (release 580 or later), "
      "or set device: cpu");
}

BOOST_FIXTURE_TEST_CASE(no_gpu_is_told_apart_from_none_that_is_visible, fresh_machine) {
  fake().gpus.clear();
  fake().start = cudaErrorNoDevice;
  check_refused("the NVIDIA driver finds no GPU: check the list of `nvidia-smi`, or set device: cpu");
  ::setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  check_refused("no GPU is visible: CUDA_VISIBLE_DEVICES is '7'; unset it, or set device: cpu");
}

BOOST_FIXTURE_TEST_CASE(a_gpu_that_the_library_has_no_kernels_for_is_refused_by_name, fresh_machine) {
  fake().gpus.front() = {.name = "Old GPU", .major = 7, .minor = 5};
  check_refused(
      "Old GPU has compute capability 7.5, wanted 8.0 or more: hide it by CUDA_VISIBLE_DEVICES, or set device: cpu");
  fake().gpus.front() = {.name = "New GPU", .major = 14, .minor = 0, .code = cudaErrorNoKernelImageForDevice};
  check_refused(
      "New GPU has compute capability 14.0, for which this libtroupe_cuda.so has no kernels: build one with "
      "-DCMAKE_CUDA_ARCHITECTURES=140");
  fake().gpus.front() = {.name = "Ill GPU", .code = cudaErrorInitializationError};
  check_refused("CUDA does not start on Ill GPU: what CUDA says (cudaErrorOther)");
}

BOOST_FIXTURE_TEST_CASE(only_the_gpu_that_is_asked_for_is_checked_and_the_threads_gpu_stays, fresh_machine) {
  fake().gpus = {{}, {.name = "Ill GPU", .code = cudaErrorInitializationError}, {}};
  cudaSetDevice(2);
  BOOST_TEST(check(gpu).has_value());
  troupe::tests::check_error(check({device_kind::cuda, 1}),
                             "device cuda:1: CUDA does not start on Ill GPU: what CUDA says (cudaErrorOther)");
  int index = -1;
  cudaGetDevice(&index);
  BOOST_TEST(index == 2);
  cudaSetDevice(0);
}

BOOST_FIXTURE_TEST_CASE(memory_that_is_refused_is_told_with_its_sizes_and_limits, fresh_machine) {
  fake().of_device_memory = fake().of_pinned_memory = cudaErrorMemoryAllocation;
  const auto on_device = memory::allocate(gpu, tier::device, 1000);
  BOOST_REQUIRE(!on_device);
  BOOST_TEST(on_device.error().text ==
             "out of the GPU's memory: wanted 1024 bytes at once, 1073741824 are free; `troupe plan FILE --fit` lists "
             "settings that need less; Test GPU has 8.00 GiB");
  const auto pinned = memory::allocate(gpu, tier::pinned, 1000);
  BOOST_REQUIRE(!pinned);
  const std::string& said = pinned.error().text;
  BOOST_TEST(said.starts_with("cannot pin 1024 bytes of host memory for the GPU, of the "), said);
  BOOST_TEST(said.ends_with(" that the host has: what CUDA says (cudaErrorOther); `free -h` shows what is left, "
                            "`troupe plan FILE --fit` lists settings that need less"),
             said);
  BOOST_TEST(memory::allocate(gpu, tier::huge, 1000).has_value());
}

BOOST_FIXTURE_TEST_CASE(memory_that_a_queued_call_lacks_is_a_limit_and_told_once, fresh_machine) {
  const auto place = taken(gpu, tier::device, 64);
  device::stream s(gpu);
  std::byte byte{};
  fake().of_copies = cudaErrorMemoryAllocation;
  s.copy(place.data(), &byte, 1);
  const auto refused = s.finish();
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == core::error_kind::limit));
  BOOST_TEST(refused.error().text ==
             "out of the GPU's memory while copying: what CUDA says (cudaErrorOther); `troupe plan FILE --fit` lists "
             "settings that need less");
  BOOST_TEST(s.finish().has_value());
}

// The fault stays for as long as the process lives, so the test requests the stream in a child process.
BOOST_FIXTURE_TEST_CASE(a_stream_that_cannot_be_made_fails_every_later_wait, fresh_machine) {
  const pid_t child = ::fork();
  if (child == 0) {
    fake().of_streams = cudaErrorMemoryAllocation;
    device::stream s(gpu);
    fake() = {};
    bool failed = true;
    for (int asked = 0; asked < 2; ++asked) {
      const auto said = s.finish();
      failed = failed && !said && said.error().kind == core::error_kind::limit &&
               said.error().text.starts_with("out of the GPU's memory while making a stream: ");
    }
    ::_exit(failed ? 0 : 1);
  }
  BOOST_REQUIRE(child > 0);
  int status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
}

BOOST_FIXTURE_TEST_CASE(a_refused_call_is_a_fault_once_and_a_lost_gpu_is_one_for_good, fresh_machine) {
  BOOST_TEST(cuda::take_fault().has_value());
  const auto place = taken(gpu, tier::device, 64);
  device::stream s(gpu);
  std::byte byte{};
  fake().of_copies = cudaErrorInvalidValue;
  s.copy(place.data(), &byte, 1);
  troupe::tests::check_error(cuda::take_fault(),
                             "the GPU reported an error while copying: what CUDA says (cudaErrorOther)");
  BOOST_TEST(cuda::take_fault().has_value());
  fake().of_waits = cudaErrorLaunchFailure;
  for (int asked = 0; asked < 2; ++asked) {
    BOOST_TEST_INFO_SCOPE("asked " << asked);
    const auto lost = s.finish();
    BOOST_REQUIRE(!lost);
    BOOST_TEST(lost.error().text ==
               "the GPU was lost while finishing its work: what CUDA says (cudaErrorLaunchFailure); restart the run, "
               "which resumes from its newest checkpoint; `dmesg | grep -i xid` shows what the driver reported");
  }
}

BOOST_FIXTURE_TEST_CASE(an_event_that_somebody_has_copied_stays_the_point_that_it_was, fresh_machine) {
  device::stream s(gpu);
  device::event first;
  s.record(first);
  const device::event copied = first;
  s.record(first);
  BOOST_TEST(first.ns_since(copied) >= 0);
  BOOST_TEST(copied.is_over());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::device::tests
