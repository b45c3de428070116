// Tests states that the host program offloads between steps and loads back.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "actors/session/state_access.hpp"
#include "telemetry/figures/memory_table.hpp"
#include "tests/check_ok.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_offload)

using namespace troupe;
using namespace troupe::tests;

namespace {

const settings two_ranks{"parallel.data=2"};

settings stage(int s) {
  return {fmt::format("zero_optimization.stage={}", s), "zero_optimization.sub_group_size=4000"};
}

/// Returns all weights, moments and gradients of a session, one list for each state.
std::vector<std::vector<double>> everything(actors::session& s) {
  std::vector<std::vector<double>> out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) {
    const auto weights = parameter_of(s, q), first = moment_of(s, q, 0), second = moment_of(s, q, 1);
    for (const auto* x : {&weights, &first, &second}) out.emplace_back(x->begin(), x->end());
    out.push_back(gradient_of(s, q));
  }
  return out;
}

bool refuses(const core::result<void>& x, const std::string& what) {
  return !x && x.error().kind == core::error_kind::bad_input && x.error().text.find(what) != std::string::npos;
}

template <class T>
core::result<void> outcome_of(const core::result<T>& x) {
  if (!x) return core::fail(x.error());
  return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(states_come_back_bit_by_bit_and_training_continues_unchanged) {
  const small_job job;
  const auto folder = job.folder().path() / "away";
  std::filesystem::create_directory(folder);
  for (const std::string precision : {"false", "true"})
    for (int s = 0; s <= 3; ++s) BOOST_TEST_CONTEXT("stage " << s << ", bf16 " << precision) {
        const auto set = stage(s) + two_ranks + settings{"bf16.enabled=" + precision};
        auto calm = job.open(set), moved = job.open(set);
        (void)step_of(*calm);
        (void)step_of(*moved);
        const auto before = everything(*moved);
        for (const auto device : {plan::tier::nvme, plan::tier::cpu}) {
          actors::offload_request request;
          request.device = device;
          request.nvme_path = folder;
          const auto did = check_ok(moved->offload_states(request));
          BOOST_TEST(did->moved_bytes > 0U);
          BOOST_TEST(did->freed_bytes == (device == plan::tier::nvme ? did->moved_bytes : 0));
          BOOST_TEST((moved->memory()[0].offloaded_bytes > 0) == (device == plan::tier::cpu));
          BOOST_TEST((moved->memory()[0].resident.moments > 0) == (device == plan::tier::cpu));
          check_ok(moved->reload_states());
          BOOST_TEST((everything(*moved) == before));
        }
        BOOST_TEST(std::filesystem::is_empty(folder));
        BOOST_TEST(step_of(*moved).loss == step_of(*calm).loss);
        BOOST_TEST((everything(*moved) == everything(*calm)));
      }
}

BOOST_AUTO_TEST_CASE(the_process_takes_less_memory_while_states_are_offloaded) {
  const small_job job(
      "model: {model_type: gpt2, n_layer: 1, n_embd: 256, n_head: 4, n_positions: 24, vocab_size: 8192, embd_pdrop: 0, "
      "attn_pdrop: 0, resid_pdrop: 0}\n");
  auto s = job.open(stage(2) + two_ranks + settings{"data.tokenizer=bytes-as-ids"});
  (void)step_of(*s);
  const uint64_t before = telemetry::process_resident_bytes();
  actors::offload_request request;
  request.include = {"optim_states", "hp_params"};
  request.device = plan::tier::nvme;
  request.nvme_path = job.folder().path();
  const auto did = check_ok(s->offload_states(request));
  const uint64_t meanwhile = telemetry::process_resident_bytes();
  BOOST_TEST_MESSAGE("freed " << did->freed_bytes << ", process " << before << " -> " << meanwhile);
  BOOST_TEST(did->freed_bytes > uint64_t{30} << 20);
  BOOST_TEST(meanwhile + did->freed_bytes * 9 / 10 < before);
  BOOST_REQUIRE(s->reload_states());
  (void)step_of(*s);
}

BOOST_AUTO_TEST_CASE(offloading_to_host_memory_says_that_states_are_there_already) {
  const small_job job;
  std::vector<std::string> lines;
  actors::session_hooks hooks;
  hooks.on_warning = [&](const std::string& line) { lines.push_back(line); };
  auto opened = check_ok(actors::session::open(job.config(stage(1)), hooks));
  const auto did = check_ok((*opened)->offload_states());
  BOOST_REQUIRE(lines.size() == 1U);
  BOOST_TEST(lines[0].find(fmt::format("{} bytes are counted there and none is freed", did->moved_bytes)) !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(calls_that_need_offloaded_states_are_refused) {
  const small_job job;
  auto s = job.open(stage(3) + two_ranks);
  (void)step_of(*s);
  BOOST_TEST(refuses(s->reload_states(), "no states are offloaded"));
  actors::offload_request request;
  request.include = {"optim_state"};
  BOOST_TEST(refuses(outcome_of(s->offload_states(request)), "got 'optim_state'"));
  request.include = {"optim_states"};
  request.device = plan::tier::nvme;
  BOOST_TEST(refuses(outcome_of(s->offload_states(request)), "nvme_path: wanted a folder"));
  request.nvme_path = job.folder().path() / "missing" / "deeper";
  BOOST_TEST(!s->offload_states(request).has_value());
  request.nvme_path = job.folder().path();
  BOOST_REQUIRE(s->offload_states(request));
  const std::string why = "call reload_states before";
  BOOST_TEST(refuses(outcome_of(s->offload_states(request)), why));
  BOOST_TEST(refuses(outcome_of(s->step()), why));
  BOOST_TEST(refuses(outcome_of(s->generate({1}, 1, 0)), why));
  std::vector<float> one(1);
  BOOST_TEST(refuses(s->read_parameter(0, 0, one), why));
  BOOST_TEST(refuses(outcome_of(s->states().get_full_fp32_param(s->table().parameters[0].name)), why));
  BOOST_TEST(refuses(s->export_hugging_face((job.folder().path() / "out").string()), why));
  BOOST_TEST(refuses(outcome_of(s->save({.root = job.folder().path() / "saves"})), why));
  BOOST_TEST(!std::filesystem::exists(job.folder().path() / "saves"));
  BOOST_REQUIRE(s->reload_states());
  (void)step_of(*s);
}

BOOST_AUTO_TEST_SUITE_END()
