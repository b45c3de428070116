// Tests the memory of a GPU: what ranks take of it is counted, and if it is full, opening a session and running a step
// each fail with one sentence, and later sessions train.
#include "device/memory.hpp"

#include "tests/gpu/settings.hpp"

BOOST_AUTO_TEST_SUITE(memory)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// A model with 160 MB of states and logits of 32 MiB: far more than the fragments that stay free when the test has
/// allocated all memory.
const std::string wide_gpt2 =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 512, n_head: 8, n_positions: 128, vocab_size: 8192, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";
const settings of_many_tokens = {"data.sequence_length=128", "train_micro_batch_size_per_gpu=8"};

constexpr uint64_t largest_bytes = uint64_t{1} << 34, least_bytes = uint64_t{1} << 20;

std::vector<device::memory> all_that_is_free() {
  std::vector<device::memory> out;
  for (uint64_t bytes = largest_bytes; bytes >= least_bytes; bytes /= 2)
    while (auto taken = device::memory::allocate({device::device_kind::cuda}, device::tier::device, bytes))
      out.push_back(std::move(*taken));
  return out;
}

/// Checks that the text is one line that reports that the device's memory is exhausted.
void check_sentence(const std::string& text) {
  BOOST_TEST(text.find("out of the GPU's memory") != std::string::npos, text);
  BOOST_TEST(text.find('\n') == std::string::npos, text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_that_finds_no_memory_is_refused_in_a_sentence) {
  const small_job job(wide_gpt2);
  const settings set = stage(1) + of_many_tokens + on_gpu;
  {
    const auto taken = all_that_is_free();
    BOOST_REQUIRE(!taken.empty());
    const auto refused = job.try_open(set);
    BOOST_REQUIRE(!refused);
    check_sentence(refused.error().text);
  }
  step_of(*job.open(set));
}

BOOST_AUTO_TEST_CASE(a_step_that_finds_no_memory_ends_in_a_sentence) {
  const small_job job(wide_gpt2);
  const settings set = stage(1) + of_many_tokens + on_gpu;
  {
    const auto s = job.open(set);
    const auto taken = all_that_is_free();
    const auto stepped = s->step();
    BOOST_REQUIRE(!stepped);
    check_sentence(stepped.error().text);
  }
  step_of(*job.open(set));
}

BOOST_AUTO_TEST_CASE(memory_of_activations_is_counted_for_each_rank) {
  const small_job job(wide_gpt2);
  const uint64_t inputs_of_blocks = uint64_t{2} * 8 * 128 * 512 * sizeof(float);
  const auto peaks_with = [&](const settings& more) {
    const auto s = job.open(stage(1) + data_ranks(2) + of_many_tokens + on_gpu + more);
    step_of(*s);
    std::vector<uint64_t> out;
    for (const auto& rank : s->memory()) out.push_back(rank.activations_peak_bytes);
    return out;
  };
  const auto stored = peaks_with({}), computed_again = peaks_with({"activation_checkpointing.enabled=true"});
  BOOST_TEST_REQUIRE((stored.size() == 2 && computed_again.size() == 2));
  for (const size_t r : {0U, 1U}) {
    BOOST_TEST(computed_again[r] > inputs_of_blocks);
    BOOST_TEST(computed_again[r] < stored[r]);
  }
}

BOOST_AUTO_TEST_CASE(a_plan_beyond_the_limit_of_the_gpu_is_refused_with_both_sizes) {
  const small_job job;
  const auto refused = job.try_open(stage(1) + settings{"cuda.memory_limit=65536"} + on_gpu);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text.find("memory limit is 64.0 KiB") != std::string::npos, refused.error().text);
}

BOOST_AUTO_TEST_SUITE_END()
