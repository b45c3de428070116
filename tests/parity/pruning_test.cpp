// Tests training with pruned weights: the run has the same bits wherever states are stored and computed. Also tests
// masks that begin after some updates, and runs that resume with their masks.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "actors/session/session.hpp"
#include "checkpoint/commit/commit.hpp"
#include "kernels/compress/pruning.hpp"
#include "tests/parity/places.hpp"

BOOST_AUTO_TEST_SUITE(pruning)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;
const std::string training = "compression_training.";

settings pruned(const std::string& technique, const std::string& ratio, const std::string& offset,
                const std::string& modules = "*", const std::string& method = "l1") {
  const std::string section = training + technique + ".";
  return {section + "shared_parameters.enabled=true", section + "shared_parameters.method=" + method,
          section + "shared_parameters.schedule_offset=" + offset,
          section + "different_groups.all.params.dense_ratio=" + ratio,
          section + "different_groups.all.modules=[\"" + modules + "\"]"};
}
/// Returns settings that prune blocks of 4 rows, from none at update `begin` to half of the blocks at update `end`.
settings snipped(const std::string& begin, const std::string& end, const std::string& modules) {
  const std::string shared = training + "sparse_pruning.shared_parameters.";
  return pruned("sparse_pruning", "0.5", begin, modules, "snip_momentum") +
         settings{shared + "schedule_offset_end=" + end, shared + "block_pattern=4x1",
                  shared + "excluded_modules=[\"h.[1-9]\"]"};
}
settings quantised(const std::string& bits, const std::string& offset) {
  const std::string section = training + "weight_quantization.";
  return {section + "shared_parameters.enabled=true",
          section + "shared_parameters.quantize_weight_in_forward=true",
          section + "shared_parameters.quantize_groups=4",
          section + "shared_parameters.schedule_offset=" + offset,
          section + "different_groups.all.params.start_bits=8",
          section + "different_groups.all.params.target_bits=" + bits};
}
const settings data_2 = {"parallel.data=2", "gradient_accumulation_steps=3", "gradient_order=per_step",
                         "tied_gradients=per_use"};

uint32_t parameter_named(const actors::session& s, const std::string& name) {
  const auto& all = s.table().parameters;
  const auto at = std::ranges::find(all, name, &core::parameter_info::name);
  BOOST_TEST_REQUIRE((at != all.end()));
  return static_cast<uint32_t>(at - all.begin());
}

}  // namespace

BOOST_AUTO_TEST_CASE(pruned_weights_have_the_same_bits_wherever_they_lie) {
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  check_places(gpt2, data_2 + pruned("sparse_pruning", "0.4", "0"), half_of(compression_places(), 0), steps);
  check_places(llama, data_2 + pruned("row_pruning", "0.5", "2", "mlp") + pruned("sparse_pruning", "0.7", "1"),
               half_of(compression_places(), 1), steps);
  check_places(gpt2,
               data_2 + pruned("row_pruning", "0.5", "1", "mlp") + quantised("4", "2") + settings{"bf16.enabled=true"},
               {stage(2), stage(3), stage(3) + settings{"parallel.pipeline=2"}}, steps);
}

BOOST_AUTO_TEST_CASE(masks_that_are_learned_have_the_same_bits_wherever_scores_lie) {
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  check_places(gpt2, data_2 + pruned("sparse_pruning", "0.5", "0", "mlp", "topk"), half_of(compression_places(), 1),
               steps);
  check_places(
      llama, data_2 + pruned("row_pruning", "0.5", "2", "mlp.(gate|up)", "topk") + pruned("sparse_pruning", "0.7", "1"),
      half_of(compression_places(), 0), steps);
  check_places(
      gpt2,
      data_2 + pruned("row_pruning", "0.5", "1", "c_fc", "topk") + quantised("4", "2") + settings{"bf16.enabled=true"},
      {stage(2), stage(3), stage(3) + settings{"parallel.pipeline=2"}}, steps);
}

BOOST_AUTO_TEST_CASE(masks_are_learned_of_weights_whose_bits_move_or_that_are_rounded_with_noise) {
  const small_job job(tiny_gpt2_with_dropout);
  const settings learned = data_2 + pruned("sparse_pruning", "0.5", "0", "mlp.c_fc", "topk") +
                           pruned("row_pruning", "0.5", "1", "mlp.c_proj", "topk");
  const std::vector<settings> some = {stage(2), stage(3) + settings{"activation_checkpointing.enabled=true"},
                                      stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"}};
  const std::string weights = training + "weight_quantization.shared_parameters.";
  const settings noisy = quantised("4", "0") + settings{weights + "rounding=stochastic"};
  auto moving = quantised("5", "0") +
                settings{weights + "fp16_mixed_quantize={enabled: true, quantize_change_ratio: 0.3}",
                         training + "weight_quantization.different_groups.all.params.quantization_period=2"};
  std::erase(moving, weights + "quantize_weight_in_forward=true");
  check_places(job, learned + noisy, some, steps);
  check_places(job, learned + moving, some, steps);
  // The scores' gradients are computed from the quantised weights, including noise, so quantisation changes them in the
  // first step already.
  const auto first_scores = [&](const settings& set) {
    const auto s = job.open(learned + set);
    step_of(*s);
    return gradient_of(*s, parameter_named(*s, "transformer.h.0.mlp.c_fc.sparse_mask_scores"));
  };
  const auto plain = first_scores(quantised("4", "0"));
  BOOST_TEST(first_scores(noisy) != plain);
  BOOST_TEST(first_scores(moving) != plain);
}

BOOST_AUTO_TEST_CASE(tensor_ranks_have_shares_of_the_masks_of_the_whole_weight) {
  const settings wide = {"data_types.param_dtype=fp64", "optimizer.params.eps=1.0e-5", "gradient_accumulation_steps=2"};
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  const settings heads = pruned("head_pruning", "0.5", "1", "(attn.c_proj|o_proj)", "topk") +
                         settings{training + "head_pruning.shared_parameters.num_heads=4"};
  for (const settings& technique : {pruned("sparse_pruning", "0.4", "0") + pruned("row_pruning", "0.5", "1", "mlp"),
                                    pruned("sparse_pruning", "0.4", "1", "*", "topk") + quantised("4", "0"),
                                    pruned("row_pruning", "0.5", "0", "(mlp|c_attn|v_proj)", "topk") + heads,
                                    snipped("1", "3", "(c_fc|c_proj|down_proj)")}) {
    for (const auto& [job, degree] : {std::pair(&gpt2, "3"), std::pair(&llama, "2")})
      BOOST_TEST_CONTEXT(text_of(technique) << ", tensor " << degree) {
        check_near(train(*job, wide + technique + settings{std::string("parallel.tensor=") + degree}, steps),
                   train(*job, wide + technique, steps), 1e-11);
      }
    check_places(gpt2, data_2 + settings{"parallel.tensor=2"} + technique,
                 {stage(1), stage(3) + settings{"activation_checkpointing.enabled=true"},
                  stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=dual_pipe_v"}},
                 steps);
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_share_columns_of_a_sample_learn_the_same_masks) {
  const settings wide = {"data_types.param_dtype=fp64", "optimizer.params.eps=1.0e-5"};
  const settings learned =
      pruned("row_pruning", "0.5", "0", "mlp", "topk") + pruned("sparse_pruning", "0.5", "1", "*", "topk");
  const small_job job(tiny_llama);
  const auto whole = train(job, wide + learned, steps);
  for (const char* axis : {"parallel.sequence=2", "parallel.context=3"}) BOOST_TEST_CONTEXT(axis) {
      check_near(train(job, wide + learned + settings{axis}, steps), whole, 1e-11);
      check_places(job, learned + settings{axis}, {stage(2), stage(3)}, steps);
    }
}

BOOST_AUTO_TEST_CASE(passes_are_chosen_anew_where_masks_begin) {
  const small_job job(tiny_gpt2_with_dropout);
  const settings set = data_2 + stage(3) + pruned("sparse_pruning", "0.5", "2", "*", "topk") +
                       pruned("row_pruning", "0.5", "3", "mlp.c_fc");
  const auto wanted = train(job, set, 6);
  const std::string some = "[recompute, selective_gather, prefetch]";
  for (const settings& compile :
       {settings{"compile.deepcompile=true", "compile.schedule=[{step: 0, passes: " + some + "}]"},
        settings{"compile.deepcompile=true",
                 "compile.schedule=[{step: 1, passes: [recompute]}, {step: 4, passes: " + some + "}]"}})
    BOOST_TEST_CONTEXT(text_of(compile)) { check_same(train(job, set + compile, 6), wanted); }
}

BOOST_AUTO_TEST_CASE(scores_are_parameters_that_begin_uniform_and_are_saved_with_their_states) {
  const small_job job(tiny_gpt2);
  const settings set = data_2 + pruned("sparse_pruning", "0.5", "1", "c_fc", "topk");
  const auto whole = train(job, set + stage(2), 5);
  const auto folder = job.folder().path() / "saved";
  {
    const auto s = job.open(set + stage(3));
    const uint32_t scores = parameter_named(*s, "transformer.h.0.mlp.c_fc.sparse_mask_scores");
    const auto& shape = s->table().parameters[scores].shape;
    const auto first = parameter_of(*s, scores);
    const double widest = 1 / std::sqrt(double(shape[1]));
    double sum = 0, most = 0;
    for (const float x : first) sum += x, most = std::max(most, double(std::abs(x)));
    BOOST_TEST(most <= widest);
    BOOST_TEST(most > 0.95 * widest);
    BOOST_TEST(std::abs(sum / double(first.size())) < 0.1 * widest);
    for (int i = 0; i < 2; ++i) step_of(*s);
    BOOST_TEST(parameter_of(*s, scores) != first);
    BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
  }
  auto again = actors::session::open({.config = job.config(set + stage(1)), .resume = folder});
  BOOST_TEST_REQUIRE(again.has_value());
  for (uint64_t i = 2; i < 5; ++i)
    BOOST_TEST(std::bit_cast<uint64_t>(step_of(**again).loss) == whole.losses[i], "step " << i);
}

BOOST_AUTO_TEST_CASE(snip_momentum_has_the_same_bits_wherever_states_lie_and_when_it_is_resumed) {
  const small_job job(tiny_gpt2);
  const settings set = data_2 + snipped("1", "3", "c_fc");
  check_places(job, set, compression_places(), steps);
  const auto whole = train(job, set + stage(2), 6);
  for (const uint64_t saved : {1U, 2U, 4U}) {
    const auto folder = job.folder().path() / fmt::format("snip-{}", saved);
    {
      const auto s = job.open(set + stage(1));
      for (uint64_t i = 0; i < saved; ++i) step_of(*s);
      BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
    }
    auto again = actors::session::open({.config = job.config(set + stage(3)), .resume = folder});
    BOOST_TEST_REQUIRE(again.has_value());
    for (uint64_t i = saved; i < 6; ++i)
      BOOST_TEST(std::bit_cast<uint64_t>(step_of(**again).loss) == whole.losses[i], "step " << i << " from " << saved);
  }
}

// The test adds up |w g| itself and sorts the blocks, independently of the tested code.
BOOST_AUTO_TEST_CASE(snip_momentum_drops_the_blocks_that_a_plain_twin_drops) {
  const small_job job(tiny_gpt2);
  const auto s = job.open(stage(0) + snipped("2", "4", "c_fc"));
  const uint32_t weight = parameter_named(*s, "transformer.h.0.mlp.c_fc.weight");
  const auto inputs = static_cast<size_t>(s->table().parameters[weight].shape[0]),
             outputs = static_cast<size_t>(s->table().parameters[weight].shape[1]);
  std::vector<float> scores(inputs * outputs);  // scores of a matrix stored as (outputs, inputs)
  std::vector<uint8_t> kept(scores.size(), 1);
  for (uint64_t step = 0; step < 6; ++step) {
    BOOST_TEST_INFO_SCOPE("step " << step);
    if (step >= 2 && step <= 4) {
      std::vector<std::pair<float, size_t>> blocks;
      for (size_t b = 0; b < outputs / 4 * inputs; ++b) {
        double sum = 0;
        for (size_t i = 0; i < 4; ++i) sum += scores[(b / inputs * 4 + i) * inputs + b % inputs];
        blocks.emplace_back(-static_cast<float>(sum), b);
      }
      std::ranges::sort(blocks);
      const double left = 1 - double(step - 2) / 2;
      const double sparsity = step == 4 ? 0.5 : 0.5 * (1 - left * left * left);
      const size_t stay = blocks.size() - static_cast<size_t>(sparsity * double(blocks.size()));
      for (size_t n = 0; n < blocks.size(); ++n)
        for (size_t i = 0; i < 4; ++i)
          kept[(blocks[n].second / inputs * 4 + i) * inputs + blocks[n].second % inputs] = n < stay ? 1 : 0;
    }
    const auto before = parameter_of(*s, weight);
    step_of(*s);
    const auto gradient = gradient_of(*s, weight);
    for (size_t o = 0; o < outputs; ++o)
      for (size_t i = 0; i < inputs; ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        BOOST_TEST_INFO_SCOPE("o " << o);
        const size_t here = o * inputs + i, there = i * outputs + o;
        if (kept[here] == 0) BOOST_TEST(gradient[there] == 0);
        scores[here] = 0.9F * scores[here] + std::fabs(before[there] * static_cast<float>(gradient[there]));
      }
  }
  const auto folder = job.folder().path() / "twin";
  BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
  const auto saved = checkpoint::open_checkpoint(storage::real_files(), folder);
  BOOST_TEST_REQUIRE(saved.has_value());
  const auto& masks = saved->content.run.masks;
  BOOST_TEST_REQUIRE(masks.size() == 1U);  // `excluded_modules` excludes the other layers
  BOOST_TEST(masks[0].module == "transformer.h.0.mlp.c_fc");
  BOOST_TEST((masks[0].bits == kernels::packed_mask(kept)));
  BOOST_TEST((masks[0].scores == scores));
  BOOST_TEST(std::accumulate(kept.begin(), kept.end(), size_t{0}) == kept.size() / 2);
}

BOOST_AUTO_TEST_CASE(gradients_of_what_is_pruned_are_zero_at_any_number_of_ranks) {
  const small_job job(tiny_gpt2);
  for (const char* ranks : {"parallel.data=1", "parallel.data=2", "parallel.data=3"}) {
    const auto s = job.open(settings{ranks} + stage(3) + pruned("row_pruning", "0.5", "0", "mlp.c_fc"));
    const uint32_t weight = parameter_named(*s, "transformer.h.0.mlp.c_fc.weight"),
                   bias = parameter_named(*s, "transformer.h.0.mlp.c_fc.bias");
    step_of(*s);
    const auto of_weight = gradient_of(*s, weight), of_bias = gradient_of(*s, bias);
    const auto outputs = of_bias.size(), inputs = of_weight.size() / outputs;
    uint64_t pruned_rows = 0;
    for (size_t o = 0; o < outputs; ++o) {
      bool is_zero = true;
      for (size_t i = 0; i < inputs; ++i) is_zero &= of_weight[i * outputs + o] == 0;
      BOOST_TEST(is_zero == (of_bias[o] == 0), "output " << o);
      pruned_rows += is_zero ? 1 : 0;
    }
    BOOST_TEST(pruned_rows == outputs / 2);
  }
}

BOOST_AUTO_TEST_CASE(masks_begin_after_their_updates_and_are_of_the_weights_that_the_run_starts_with) {
  const small_job job(tiny_gpt2);
  const settings common = data_2 + stage(2);
  const auto plain = train(job, common, steps), late = train(job, common + pruned("sparse_pruning", "0.2", "2"), steps);
  for (const uint64_t i : {0U, 1U}) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(late.losses[i] == plain.losses[i]);
  for (const uint64_t i : {2U, 3U}) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(late.losses[i] != plain.losses[i]);
}

BOOST_AUTO_TEST_CASE(an_evaluation_computes_with_the_masks_of_the_next_step) {
  const small_job job(tiny_gpt2);
  const auto losses_of = [&](const settings& set) {
    const auto s = job.open(settings{"data.validation_fraction=0.5"} + set);
    const double before = s->evaluate(2).value();
    step_of(*s);
    return std::pair(before, s->evaluate(2).value());
  };
  const auto plain = losses_of({}), late = losses_of(pruned("sparse_pruning", "0.2", "1"));
  BOOST_TEST(late.first == plain.first);
  BOOST_TEST(late.second != plain.second);
}

// DeepSpeed recomputes masks from the weights of a resumed run; Troupe keeps the masks that the run started with.
BOOST_AUTO_TEST_CASE(a_run_that_resumes_anywhere_keeps_its_masks) {
  const small_job job(tiny_gpt2);
  const settings set = settings{"gradient_order=per_step", "tied_gradients=per_use"} +
                       pruned("sparse_pruning", "0.3", "2") + pruned("row_pruning", "0.5", "3", "mlp.c_fc");
  const settings two = {"parallel.data=2", "gradient_accumulation_steps=3"},
                 three = {"parallel.data=3", "gradient_accumulation_steps=2"};
  const auto whole = train(job, set + two + stage(2), 6);
  for (const uint64_t saved : {1U, 2U, 4U}) {
    const auto folder = job.folder().path() / fmt::format("saved-{}", saved);
    {
      const auto s = job.open(set + two + stage(2));
      for (uint64_t i = 0; i < saved; ++i) step_of(*s);
      BOOST_TEST_REQUIRE(s->save({.root = folder}).has_value());
    }
    auto again = actors::session::open({.config = job.config(set + two + stage(3)), .resume = folder});
    BOOST_TEST_REQUIRE(again.has_value());
    for (uint64_t i = saved; i < 6; ++i)
      BOOST_TEST(std::bit_cast<uint64_t>(step_of(**again).loss) == whole.losses[i], "step " << i << " from " << saved);
    // Three ranks add gradients in another order than two, so the bits differ. With wrong masks, losses would differ in
    // their second digit.
    auto other = actors::session::open({.config = job.config(set + three + stage(3)), .resume = folder});
    BOOST_TEST_REQUIRE(other.has_value());
    for (uint64_t i = saved; i < 6; ++i) BOOST_TEST_CONTEXT("i " << i)
    BOOST_TEST(step_of(**other).loss == std::bit_cast<double>(whole.losses[i]), boost::test_tools::tolerance(1e-5));
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_resumes_with_other_tensor_ranks_keeps_masks_and_scores) {
  const small_job job(tiny_gpt2);
  const settings common = {"gradient_order=per_step", "tied_gradients=per_use", "parallel.data=2"};
  for (const settings& technique :
       {pruned("sparse_pruning", "0.3", "2") + pruned("row_pruning", "0.5", "1", "mlp.c_fc", "topk"),
        snipped("1", "4", "c_fc")}) {
    const settings set = common + technique;
    const auto whole = train(job, set + stage(2), 6);
    const auto folder = job.folder().path() / fmt::format("tensor-{}", technique.size());
    const auto go_on = [&](const settings& degrees, const std::filesystem::path& from) {
      auto s = actors::session::open({.config = job.config(set + degrees), .resume = from});
      BOOST_TEST_REQUIRE(s.has_value());
      return std::move(*s);
    };
    const auto is_as_whole = [&](actors::session& s, uint64_t step) {
      BOOST_TEST(step_of(s).loss == std::bit_cast<double>(whole.losses[step]), boost::test_tools::tolerance(1e-5));
    };
    const settings three = {"parallel.tensor=3"}, two = {"parallel.tensor=2"};
    {
      const auto s = job.open(set + three + stage(2));
      for (uint64_t i = 0; i < 2; ++i) is_as_whole(*s, i);
      BOOST_TEST_REQUIRE(s->save({.root = folder / "3"}).has_value());
    }
    {
      const auto s = go_on(two + stage(3), folder / "3");
      for (uint64_t i = 2; i < 4; ++i) is_as_whole(*s, i);
      BOOST_TEST_REQUIRE(s->save({.root = folder / "2"}).has_value());
    }
    const auto s = go_on(stage(1), folder / "2");
    for (uint64_t i = 4; i < 6; ++i) is_as_whole(*s, i);
    BOOST_TEST_REQUIRE(s->save({.root = folder / "1"}).has_value());
    const auto masks_of = [&](const char* ranks) {
      const auto saved = checkpoint::open_checkpoint(storage::real_files(), folder / ranks);
      BOOST_TEST_REQUIRE(saved.has_value());
      return saved->content.run.masks;
    };
    const auto first = masks_of("3"), last = masks_of("1");
    BOOST_TEST_REQUIRE(!first.empty());
    if (first[0].scores.empty()) BOOST_TEST((first == last));  // masks of technique l1 are computed only once
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_pruned_is_refused_by_name) {
  const small_job job(tiny_gpt2);
  const auto refused = [&](const settings& set) {
    const auto s = job.try_open(set);
    return s ? std::string("opened") : s.error().text;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  BOOST_TEST(has(refused(pruned("row_pruning", "0.5", "0", "wte")),
                 "row_pruning.different_groups.all.modules: wanted patterns that match the name of a module"));
  BOOST_TEST(has(refused(pruned("channel_pruning", "0.5", "0")), "channel_pruning.different_groups.all.modules"));
  const settings heads = pruned("head_pruning", "0.5", "0", "attn.c_proj", "topk");
  BOOST_TEST(has(refused(heads + settings{training + "head_pruning.shared_parameters.num_heads=3"}), "heads, got 3"));
}

BOOST_AUTO_TEST_SUITE_END()
