// Tests quantisation-aware training of weights and inputs: the run has the same bits wherever states are stored and
// computed. Also tests techniques that begin after some updates, bit widths that decrease step by step, learned value
// ranges, and evaluation and resuming with them.
#include <fmt/format.h>

#include "actors/session/session.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/parity/places.hpp"

BOOST_AUTO_TEST_SUITE(compression)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;
const std::string weights = "compression_training.weight_quantization.";
const std::string inputs = "compression_training.activation_quantization.";

settings quantised(const std::string& bits, const std::string& groups, const std::string& offset,
                   const std::string& modules = "*") {
  return {weights + "shared_parameters.enabled=true",
          weights + "shared_parameters.quantize_weight_in_forward=true",
          weights + "shared_parameters.quantize_groups=" + groups,
          weights + "shared_parameters.schedule_offset=" + offset,
          weights + "different_groups.all.params.start_bits=8",
          weights + "different_groups.all.params.target_bits=" + bits,
          weights + "different_groups.all.modules=[\"" + modules + "\"]"};
}
settings quantised_inputs(const std::string& bits, const std::string& offset, const std::string& type = "symmetric") {
  return {inputs + "shared_parameters.enabled=true", inputs + "shared_parameters.schedule_offset=" + offset,
          inputs + "shared_parameters.quantization_type=" + type, inputs + "different_groups.all.params.bits=" + bits};
}
settings learned_ranges(const std::string& bits, const std::string& offset, const std::string& type = "symmetric") {
  return quantised_inputs(bits, offset, type) + settings{inputs + "shared_parameters.range_calibration=static"};
}
/// Returns settings that lower the weights' bit width from 8 to `target`, for the first time after two steps.
settings moving_bits(const std::string& target, const std::string& offset, bool mixed) {
  auto out = quantised(target, "4", offset);
  std::erase(out, weights + "shared_parameters.quantize_weight_in_forward=true");
  out.push_back(weights + "different_groups.all.params.quantization_period=2");
  if (mixed)
    out.push_back(weights + "shared_parameters.fp16_mixed_quantize={enabled: true, quantize_change_ratio: 0.3}");
  return out;
}
const settings data_2 = {"parallel.data=2", "gradient_accumulation_steps=3", "gradient_order=per_step",
                         "tied_gradients=per_use"};

}  // namespace

BOOST_AUTO_TEST_CASE(quantised_weights_have_the_same_bits_wherever_they_lie) {
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  check_places(gpt2, data_2 + quantised("4", "4", "0"), half_of(compression_places(), 0), steps);
  check_places(llama, data_2 + quantised("3", "8", "2"), half_of(compression_places(), 1), steps);
  check_places(gpt2, data_2 + quantised("2", "2", "1", "mlp") + settings{"bf16.enabled=true"},
               {stage(2), stage(3), stage(3) + settings{"parallel.pipeline=2"}}, steps);
  check_places(gpt2, data_2 + quantised("1", "1", "0", "attn") + settings{"gradient_clipping=0.1"},
               {stage(1) + settings{"cluster.early_updates=true"}, stage(3)}, steps);
}

BOOST_AUTO_TEST_CASE(quantised_inputs_have_the_same_bits_wherever_states_lie) {
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  check_places(gpt2, data_2 + quantised_inputs("4", "1", "asymmetric") + quantised("8", "1", "2"), compression_places(),
               steps);
  check_places(llama, data_2 + quantised_inputs("8", "0") + settings{"bf16.enabled=true"},
               {stage(2), stage(3) + settings{"activation_checkpointing.enabled=true"},
                stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"}},
               steps);
  const small_job plain(tiny_gpt2);
  const auto whole = train(plain, {}, 3), late = train(plain, quantised_inputs("4", "1"), 3);
  BOOST_TEST(late.losses[0] == whole.losses[0]);
  BOOST_TEST(late.losses[1] != whole.losses[1]);
}

BOOST_AUTO_TEST_CASE(tensor_ranks_multiply_with_what_the_uncut_model_does) {
  const settings wide = {"data_types.param_dtype=fp64", "optimizer.params.eps=1.0e-5", "gradient_accumulation_steps=2"};
  const bool every_degree = wanted_cases("TROUPE_CASES", 0) > 0;
  for (const std::string& model : {tiny_gpt2_with_dropout, tiny_llama}) {
    const small_job job(model);
    int n = model == tiny_llama ? 1 : 0;
    for (const settings& technique :
         {quantised("4", "1", "0"),
          quantised("3", "16", "1") + settings{weights + "shared_parameters.rounding=stochastic"},
          quantised("2", "1", "0") + settings{weights + "different_groups.all.modules=['proj|mlp|attn']"},
          quantised("1", "4", "1"),
          moving_bits("1", "0", true) + settings{weights + "different_groups.all.params.start_bits=3",
                                                 weights + "different_groups.all.params.quantization_period=1"},
          moving_bits("6", "0", true), learned_ranges("8", "0", "asymmetric"),
          quantised_inputs("8", "0") +
              settings{inputs + "different_groups.all.modules=['c_attn|c_fc|[qkv]_proj|gate_proj|up_proj']"}}) {
      const auto whole = train(job, wide + technique, steps);
      // Each technique runs at one degree with one model and at the other degree with the other; `make soak` runs both.
      const int here = n++ % 2 == 0 ? 2 : 3;
      for (const int degree : {2, 3}) BOOST_TEST_CONTEXT(model << text_of(technique) << ", tensor " << degree) {
          if (degree != here && !every_degree) continue;
          check_near(train(job, wide + technique + settings{fmt::format("parallel.tensor={}", degree)}, steps), whole,
                     1e-11);
        }
    }
    for (const char* bits : {"4", "2"})
      check_places(job, data_2 + settings{"parallel.tensor=2"} + quantised(bits, "4", "1"),
                   {stage(1), stage(3) + settings{"activation_checkpointing.enabled=true"},
                    stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=dual_pipe_v"}},
                   steps);
  }
}

BOOST_AUTO_TEST_CASE(bits_that_go_one_by_one_and_noise_are_the_same_wherever_weights_lie) {
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  check_places(gpt2, data_2 + moving_bits("2", "1", true), compression_places(), steps);
  check_places(llama, data_2 + moving_bits("6", "0", false) + settings{"bf16.enabled=true"}, {stage(2), stage(3)},
               steps);
  const settings noisy = quantised("4", "2", "0") + settings{weights + "shared_parameters.rounding=stochastic"};
  check_places(gpt2, data_2 + noisy, compression_places(), steps);
  const auto nearest = train(gpt2, data_2 + quantised("4", "2", "0"), 2), noise = train(gpt2, data_2 + noisy, 2),
             other_seed = train(gpt2, data_2 + noisy + settings{"seed=8"}, 2),
             moving = train(gpt2, data_2 + moving_bits("4", "0", false), 4),
             mixed = train(gpt2, data_2 + moving_bits("4", "0", true), 4),
             eight = train(gpt2, data_2 + quantised("8", "4", "0"), 4);
  BOOST_TEST(noise.losses[0] != nearest.losses[0]);
  BOOST_TEST(noise.losses[0] != other_seed.losses[0]);
  BOOST_TEST(moving.losses[1] != eight.losses[1]);
  BOOST_TEST(mixed.losses[0] != moving.losses[0]);
}

BOOST_AUTO_TEST_CASE(learned_ranges_are_one_value_for_all_ranks_wherever_they_compute) {
  const small_job gpt2(tiny_gpt2_with_dropout), plain(tiny_gpt2);
  check_places(gpt2, data_2 + learned_ranges("8", "1", "asymmetric"), compression_places(), steps);
  check_places(gpt2, data_2 + learned_ranges("4", "0") + settings{"bf16.enabled=true"}, {stage(2), stage(3)}, steps);
  // The first step with learned ranges measures them, the second quantises with them; the ranges cover the data of all
  // ranks.
  const auto none = train(plain, {}, 3), learned = train(plain, learned_ranges("4", "1"), 3);
  BOOST_TEST(learned.losses[1] == none.losses[1]);
  BOOST_TEST(learned.losses[2] != none.losses[2]);
}

BOOST_AUTO_TEST_CASE(a_technique_begins_after_its_updates_and_steps_that_are_skipped_are_none) {
  const small_job job(tiny_gpt2);
  const settings common = data_2 + stage(2);
  const auto plain = train(job, common, steps), late = train(job, common + quantised("2", "1", "2"), steps),
             from_start = train(job, common + quantised("2", "1", "0"), steps);
  for (const uint64_t i : {0U, 1U}) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(late.losses[i] == plain.losses[i]);
  for (const uint64_t i : {2U, 3U}) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(late.losses[i] != plain.losses[i]);
  BOOST_TEST(from_start.losses[0] != plain.losses[0]);

  const settings skips = {"fp16.enabled=true", "fp16.initial_scale_power=19", "fp16.hysteresis=1"};
  const auto unquantised = train(job, common + skips, 10);
  BOOST_TEST_REQUIRE((unquantised.skipped > 0 && unquantised.skipped < 9));
  const auto quantised_late = train(job, common + skips + quantised("2", "1", "1"), 10);
  BOOST_TEST(quantised_late.losses[unquantised.skipped] == unquantised.losses[unquantised.skipped]);
  BOOST_TEST(quantised_late.losses[unquantised.skipped + 1] != unquantised.losses[unquantised.skipped + 1]);
}

BOOST_AUTO_TEST_CASE(an_evaluation_computes_with_what_a_step_would_compute_with) {
  const small_job job(tiny_gpt2);
  const settings held_out = {"data.validation_fraction=0.5"};
  const auto losses_of = [&](const settings& set) {
    const auto s = job.open(held_out + set);
    const double before = s->evaluate(2).value();
    step_of(*s);
    return std::pair(before, s->evaluate(2).value());
  };
  const auto plain = losses_of({}), late = losses_of(quantised("2", "1", "1")),
             at_once = losses_of(quantised("2", "1", "0"));
  BOOST_TEST(late.first == plain.first);
  BOOST_TEST(late.second != plain.second);
  BOOST_TEST(at_once.first != plain.first);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_resumed_has_begun_what_had_begun) {
  const small_job job(tiny_gpt2);
  const settings static_at_1 = data_2 + learned_ranges("8", "1", "asymmetric"),
                 noisy =
                     data_2 + moving_bits("5", "1", true) + settings{weights + "shared_parameters.rounding=stochastic"};
  for (const settings& set : {data_2 + quantised("4", "2", "2"), static_at_1, noisy}) {
    const auto whole = train(job, set + stage(2), 6);
    for (const uint64_t saved : {1U, 2U, 4U}) {
      const auto folder = job.folder().path() / fmt::format("saved-{}", saved);
      {
        const auto s = job.open(set + stage(2));
        for (uint64_t i = 0; i < saved; ++i) step_of(*s);
        BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
      }
      auto again = actors::session::open({.config = job.config(set + stage(3)), .resume = folder});
      BOOST_TEST_REQUIRE(again.has_value());
      for (uint64_t i = saved; i < 6; ++i)
        BOOST_TEST(std::bit_cast<uint64_t>(step_of(**again).loss) == whole.losses[i],
                   "step " << i << " from " << saved);
    }
  }
}

BOOST_AUTO_TEST_CASE(passes_are_chosen_anew_where_a_technique_begins) {
  const small_job job(tiny_gpt2_with_dropout);
  const settings technique = quantised("4", "4", "2") + learned_ranges("8", "3");
  const auto wanted = train(job, data_2 + stage(3) + technique, 7);
  const std::string some = "[recompute, selective_gather, prefetch]";
  for (const settings& compile :
       {settings{"compile.deepcompile=true", "compile.schedule=[{step: 0, passes: " + some + "}]"},
        settings{"compile.deepcompile=true",
                 "compile.schedule=[{step: 1, passes: [recompute]}, {step: 4, passes: " + some + "}]"},
        settings{"compile=auto"}})
    BOOST_TEST_CONTEXT(text_of(compile)) { check_same(train(job, data_2 + stage(3) + technique + compile, 7), wanted); }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_by_name) {
  const small_job job(tiny_gpt2);
  const auto refused = [&](const settings& set) {
    const auto s = job.try_open(set);
    return s ? std::string("opened") : s.error().text;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  BOOST_TEST(has(refused(quantised("4", "7", "0")), "elements cannot be divided into 7 groups"));
  BOOST_TEST(has(refused(quantised("4", "1", "0", "no_such")), "wanted patterns that match the name of a module"));
  const settings tensor = {"parallel.tensor=2"};
  BOOST_TEST(
      has(refused(quantised_inputs("8", "0") + tensor), "wanted range_calibration static, because tensor ranks split"));
  const settings twice = quantised("4", "1", "0") + settings{weights + "different_groups.more.params.start_bits=8",
                                                             weights + "different_groups.more.params.target_bits=8",
                                                             weights + "different_groups.more.modules=[\"c_fc\"]"};
  BOOST_TEST(has(refused(twice), "wanted each module in one group, got transformer.h.0.mlp.c_fc in all and more"));
}

// When a phase begins, the plans of evaluations and saves are freed. New plans may have the addresses of freed ones,
// and must not be confused with them.
BOOST_AUTO_TEST_CASE(a_phase_that_begins_between_an_evaluation_and_a_save_changes_no_bit) {
  const small_job job(tiny_gpt2);
  const settings all = data_2 + quantised("4", "4", "3") + stage(2) + settings{"data.validation_fraction=0.2"};
  const auto undisturbed = job.open(all);
  std::vector<double> wanted;
  for (int i = 0; i < 6; ++i) wanted.push_back(step_of(*undisturbed).loss);
  for (int turn = 0; turn < 5; ++turn) {
    const auto s = job.open(all);
    for (int i = 0; i < 6; ++i) {
      if (i == 2 || i == 4) BOOST_TEST_REQUIRE(s->evaluate(1).has_value());
      if (i == 3) BOOST_TEST_REQUIRE(s->save_async({.root = job.folder().path() / "beside"}).has_value());
      BOOST_TEST(step_of(*s).loss == wanted[static_cast<size_t>(i)], "step " << i);
    }
    BOOST_TEST(s->wait_for_saves().has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()
