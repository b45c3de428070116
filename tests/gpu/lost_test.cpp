// Tests a GPU that is lost in the middle of a run. CUDA does not recover it within the process, so this suite runs in a
// process of its own, and only if it is requested by name.
#include "kernels/operations.hpp"

#include "tests/gpu/settings.hpp"

BOOST_AUTO_TEST_SUITE(lost, *boost::unit_test::disabled())

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Launches a kernel that writes to an address without memory, which makes CUDA fail in this process.
void lose_the_gpu() {
  constexpr uint64_t count = 1024;
  auto* const nowhere = reinterpret_cast<std::byte*>(uintptr_t{1} << 20);
  kernels::operations_of({device::device_kind::cuda})
      .cast(nowhere, core::dtype::f32, nowhere, core::dtype::bf16, count);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lost_gpu_ends_the_step_and_gives_no_states) {
  const small_job job;
  const scratch_folder folder;
  const auto s = job.open(stage(3) + data_ranks(2) + on_gpu);
  step_of(*s);
  lose_the_gpu();
  const auto stepped = s->step();
  const auto read = s->states().get_full_fp32_param(s->table().parameters[3].name);
  const auto saved = s->save({.root = folder / "lost"});
  BOOST_REQUIRE((!stepped && !read && !saved));
  for (const auto& said : {stepped.error().text, read.error().text, saved.error().text})
    BOOST_TEST(said.find("the GPU was lost") != std::string::npos, said);
  BOOST_TEST(!std::filesystem::exists(folder / "lost" / "latest"));
}

BOOST_AUTO_TEST_SUITE_END()
