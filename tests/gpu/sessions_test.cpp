// Tests whole sessions on a GPU: the bits do not depend on where states are stored, losses are near the CPU's, and
// checkpoints load across devices.
#include <fmt/format.h>

#include <cmath>

#include "tests/gpu/settings.hpp"
#include "tests/parity/document_lines.hpp"
#include "tests/parity/many_rows.hpp"

BOOST_AUTO_TEST_SUITE(sessions)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;
const settings bf16 = {"bf16.enabled=true"};

settings micro_batches(int n) { return {fmt::format("gradient_accumulation_steps={}", n)}; }

/// Returns the largest allowed difference of losses and norms from the CPU's, whose products add in another order.
double bound_of(const settings& type) { return type == bf16 ? 2e-2 : 1e-5; }
constexpr double optimizer_bound = 1e-4;  // limit for the other optimizers, whose steps are larger

/// Returns settings for every ZeRO stage with every tier of the states.
std::vector<settings> places() {
  return {stage(0),
          stage(1),
          stage(2),
          stage(3),
          stage(1) + host_optimizer,
          stage(2) + host_optimizer,
          stage(3) + host_optimizer,
          stage(3) + host_optimizer + settings{zero + "offload_param.device=cpu"},
          stage(3) + states_in_files()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(wherever_states_lie_a_run_has_the_same_bits_and_is_near_the_cpus) {
  const small_job gpt2, llama(tiny_llama);
  for (const small_job* job : {&gpt2, &llama})
    for (const settings& type : {settings{}, bf16})
      for (const int ranks : {1, 2, 4})
        for (const int micro : {1, 3}) {
          const settings common =
              type + data_ranks(ranks) + micro_batches(micro) + settings{"gradient_order=per_micro_batch"};
          const auto wanted = train(*job, common + stage(2) + on_gpu, steps);
          BOOST_TEST_CONTEXT((job == &gpt2 ? "gpt2 " : "llama ") << text_of(common)) {
            check_near(wanted, train(*job, common + stage(2), steps), bound_of(type));
            for (const settings& place : places()) BOOST_TEST_CONTEXT(text_of(place)) {
                check_same(train(*job, common + place + on_gpu, steps), wanted);
              }
          }
        }
}

BOOST_AUTO_TEST_CASE(a_run_that_is_run_again_has_the_same_bits) {
  for (const auto* model : {&tiny_gpt2, &tiny_llama}) {
    const small_job job(*model);
    const settings set = stage(3) + data_ranks(2) + bf16 + settings{"activation_checkpointing.enabled=true"} + on_gpu;
    check_same(train(job, set, steps), train(job, set, steps));
  }
}

BOOST_AUTO_TEST_CASE(every_optimizer_is_near_the_cpus) {
  const small_job job(tiny_gpt2_with_dropout);
  const settings common = {"model.attn_pdrop=0", "data.document_mask=true",
                           "data.text=" + job.folder().write("lines.jsonl", document_lines()).string()};
  for (const std::string each : {"{type: AdamW, params: {lr: 1.0e-3}}", "{type: Adagrad, params: {lr: 1.0e-3}}",
                                 "{type: Lion, params: {lr: 1.0e-4}}", "{type: SGD, params: {lr: 1.0e-2}}",
                                 "{type: SGD, params: {lr: 1.0e-2, momentum: 0.9}}",
                                 "{type: LAMB, params: {lr: 1.0e-3}}", "{type: Muon, params: {lr: 1.0e-3}}"})
    for (const settings& place : {stage(0), stage(2) + data_ranks(2), stage(2) + data_ranks(2) + host_optimizer})
      BOOST_TEST_CONTEXT(each << " " << text_of(place)) {
        const settings set = common + place + settings{"optimizer=" + each};
        check_near(train(job, set + on_gpu, steps), train(job, set, steps), optimizer_bound);
      }
}

BOOST_AUTO_TEST_CASE(row_tiles_are_near_the_cpus) {
  for (const std::string& model : {short_gpt2, short_llama})
    for (const settings& type : {settings{}, bf16})
      for (const settings& tiles : {settings{}, tiles_of_one_panel}) {
        const small_job job = job_of_many_rows(model);
        const bool is_gpt2 = model == short_gpt2;
        const settings set =
            stage(2) + many_rows + type + tiles + (is_gpt2 ? settings{"model.attn_pdrop=0"} : settings{});
        BOOST_TEST_CONTEXT((is_gpt2 ? "gpt2 " : "llama ") << text_of(set)) {
          BOOST_TEST(tiled_units(*job.open(set + on_gpu)) == (tiles.empty() ? 0 : 3));
          check_near(train(job, set + on_gpu, steps), train(job, set, steps), bound_of(type));
        }
      }
}

BOOST_AUTO_TEST_CASE(recomputation_and_early_updates_are_near_the_cpus) {
  const small_job job;
  for (const settings& each : {stage(3) + data_ranks(2) + settings{"activation_checkpointing.enabled=true"},
                               stage(2) + settings{"gradient_clipping=0"}})
    BOOST_TEST_CONTEXT(text_of(each)) {
      check_near(train(job, each + on_gpu, steps), train(job, each, steps), bound_of({}));
    }
}

BOOST_AUTO_TEST_CASE(a_run_saved_on_one_device_is_resumed_on_the_other) {
  const small_job job;
  for (const settings& type : {settings{}, bf16})
    for (const settings& place : {stage(0), stage(3), stage(3) + host_optimizer, stage(3) + states_in_files()})
      for (const bool saved_there : {false, true}) {
        const settings all = type + place + data_ranks(2), first = saved_there ? all + on_gpu : all;
        const settings then = saved_there ? all : all + on_gpu;
        BOOST_TEST_CONTEXT(text_of(all) << ", saved there: " << saved_there) {
          const auto wanted = train(job, all, steps);
          const scratch_folder folder;
          {
            const auto s = job.open(first);
            for (uint64_t i = 0; i < steps / 2; ++i) step_of(*s);
            BOOST_REQUIRE(s->save({.root = folder / "half"}));
          }
          auto s = actors::session::open({.config = job.config(then), .resume = folder / "half"});
          BOOST_TEST_REQUIRE(s.has_value(), (s ? "" : s.error().text));
          for (uint64_t i = steps / 2; i < steps; ++i) {
            const double got = step_of(**s).loss, loss = std::bit_cast<double>(wanted.losses[i]);
            BOOST_TEST(std::abs(got / loss - 1) <= bound_of(type), "step " << i << ": " << got << " beside " << loss);
          }
        }
      }
}

BOOST_AUTO_TEST_CASE(evaluation_and_samples_are_those_of_the_cpu) {
  const small_job job(tiny_llama);
  const settings set = stage(3) + data_ranks(2) + settings{"data.validation_fraction=0.2"};
  const auto near = job.open(set), far = job.open(set + on_gpu);
  step_of(*near);
  step_of(*far);
  const double wanted = near->evaluate({.batches = 2}).value().loss, got = far->evaluate({.batches = 2}).value().loss;
  BOOST_TEST(std::abs(got / wanted - 1) <= bound_of({}), got << " beside " << wanted);
  BOOST_TEST(far->generate({1, 2, 3}, 8, 0).value() == near->generate({1, 2, 3}, 8, 0).value(),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
