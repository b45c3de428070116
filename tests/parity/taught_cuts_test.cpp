// Tests distillation from a teacher combined with pipeline stages, learned masks and passes. The run equals the one
// without them bit for bit or, where that is not guaranteed, closely.
#include <fmt/format.h>

#include <bit>

#include "tests/parity/trained_teacher.hpp"

BOOST_AUTO_TEST_SUITE(taught_cuts)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 4;

const settings by_use = data_2 + settings{"tied_gradients=per_use"};
const settings both_terms = {"distillation.terms.hidden_states=1", "distillation.terms.attention=5"};
const settings recomputed = {"activation_checkpointing.enabled=true"};

settings cut(int ranks, const std::string& schedule, int chunks = 1) {
  return {fmt::format("parallel.pipeline={}", ranks), "pipeline.schedule=" + schedule,
          fmt::format("pipeline.chunks={}", chunks)};
}
settings pruned(const std::string& technique, const std::string& method, const std::string& modules) {
  const std::string section = "compression_training." + technique + ".";
  return {section + "shared_parameters.enabled=true", section + "shared_parameters.method=" + method,
          section + "shared_parameters.schedule_offset=1", section + "different_groups.all.params.dense_ratio=0.5",
          section + "different_groups.all.modules=[\"" + modules + "\"]"};
}
std::string refusal_of(const small_job& job, const settings& set) {
  const auto s = job.try_open(set);
  return s ? std::string("opened") : s.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_teacher_is_cut_into_the_stages_of_its_student_and_the_bits_stay) {
  const trained_teacher wider(wider_teacher), as_deep(three_layers);
  const small_job gpt2(tiny_gpt2_with_dropout), two(two_layers);
  check_places(gpt2, by_use + wider.taught(),
               {stage(1) + cut(2, "gpipe"), stage(3) + cut(2, "1f1b") + recomputed, stage(2) + cut(3, "zb_h1"),
                stage(3) + cut(2, "zb_v", 2), stage(1) + cut(2, "interleaved", 2),
                stage(3) + cut(2, "1f1b") + states_in_files(), stage(1) + settings{"cluster.early_updates=true"}},
               steps);
  check_places(two, by_use + as_deep.taught() + both_terms,
               {stage(2), stage(1) + cut(2, "1f1b"), stage(3) + cut(4, "zb_h1"), stage(2) + cut(2, "zb_v", 2),
                stage(3) + cut(2, "1f1b") + recomputed + settings{"cluster.offload_activations=cpu"}},
               steps);
}

BOOST_AUTO_TEST_CASE(stages_learn_from_a_teacher_in_16_bits) {
  const trained_teacher deeper(llama_teacher_as_wide), other(llama_teacher);
  const small_job job(tiny_llama);
  check_places(job, by_use + deeper.taught() + both_terms + settings{"bf16.enabled=true"},
               {stage(3), stage(2) + cut(2, "1f1b"), stage(3) + cut(2, "dual_pipe_v", 2)}, steps);
  check_places(job, by_use + other.taught("jsd") + settings{"fp16.enabled=true"},
               {stage(3) + cut(3, "1f1b"), stage(1) + cut(2, "zb_h2")}, steps);
}

BOOST_AUTO_TEST_CASE(masks_of_a_model_that_learns_from_a_teacher_have_the_same_bits_wherever_they_lie) {
  const trained_teacher wider(wider_teacher), as_deep(three_layers);
  const small_job gpt2(tiny_gpt2_with_dropout), two(two_layers);
  check_places(gpt2, by_use + wider.taught() + pruned("row_pruning", "topk", "mlp.c_fc"),
               {stage(2) + recomputed, stage(3), stage(3) + cut(2, "1f1b"), stage(3) + states_in_files()}, steps);
  check_places(two,
               by_use + as_deep.taught() + both_terms + pruned("sparse_pruning", "topk", "attn") +
                   pruned("row_pruning", "l1", "mlp.c_fc"),
               {stage(3), stage(1) + cut(2, "1f1b")}, steps);
  const settings set = by_use + wider.taught() + pruned("sparse_pruning", "snip_momentum", "c_fc");
  check_places(gpt2, set, {stage(1), stage(3) + cut(2, "zb_h1")}, steps);
  const auto plain = train(gpt2, by_use + wider.taught(), 3), masked = train(gpt2, set, 3);
  BOOST_TEST(plain.losses.back() != masked.losses.back());
}

BOOST_AUTO_TEST_CASE(passes_change_no_bit_of_a_step_that_learns_from_a_teacher) {
  const trained_teacher as_deep(three_layers);
  const small_job job(two_layers);
  const settings set = by_use + as_deep.taught() + both_terms;
  const auto reference = train(job, set + stage(3), steps);
  for (const std::string passes :
       {"[prefetch, selective_gather, fuse_buckets]", "[recompute, prefetch]", "[recompute, offload_activation]"})
    for (const settings& more : {settings(), cut(2, "1f1b")}) BOOST_TEST_CONTEXT(passes << text_of(more)) {
        const settings compiled = {"compile.deepcompile=true", "compile.schedule=[{step: 1, passes: " + passes + "}]"};
        check_same(train(job, set + stage(3) + more + compiled, steps), reference);
      }
}

// The test uses fp64, so that only the order of sums causes differences.
BOOST_AUTO_TEST_CASE(ranks_that_share_samples_or_products_share_the_teachers_too_and_come_near_the_uncut_run) {
  const settings wide = {"data_types.param_dtype=fp64", "optimizer.params.eps=1.0e-5", "gradient_accumulation_steps=2"};
  const settings hidden = {"distillation.terms.hidden_states=1"};
  const auto check = [&](const std::string& model, const std::string& of_teacher, const settings& more,
                         const std::vector<settings>& cuts) {
    const trained_teacher teacher(of_teacher);
    const small_job job(model);
    const settings set = wide + teacher.taught() + more;
    const auto whole = train(job, set, steps);
    for (const settings& each : cuts) BOOST_TEST_CONTEXT(text_of(set + each)) {
        check_near(train(job, set + each, steps), whole, 1e-11);
      }
  };
  const settings sequence = {"parallel.sequence=2"}, context = {"parallel.context=3"}, tensor = {"parallel.tensor=2"};
  check(tiny_gpt2_with_dropout, wider_teacher, {},
        {sequence, {"parallel.context=2"}, tensor, {"parallel.tensor=3"}, sequence + cut(2, "1f1b")});
  check(two_layers, three_layers, hidden, {sequence, context, tensor + recomputed, {"parallel.tensor=4"}});
  check(tiny_llama, llama_teacher_as_wide, hidden, {sequence + tensor, context, tensor});
}

BOOST_AUTO_TEST_CASE(groups_that_share_a_teacher_leave_the_bits_wherever_states_lie) {
  const trained_teacher as_deep(three_layers), wider(wider_teacher);
  const small_job two(two_layers), gpt2(tiny_gpt2_with_dropout);
  const settings hidden = {"distillation.terms.hidden_states=1"};
  check_places(two, by_use + as_deep.taught() + hidden + settings{"parallel.tensor=2"},
               {stage(1), stage(3) + recomputed, stage(2) + settings{"tensor_parallel.tp_overlap_comm=true"}}, steps);
  check_places(two, by_use + as_deep.taught() + hidden + settings{"parallel.sequence=2", "bf16.enabled=true"},
               {stage(3), stage(2) + recomputed, stage(1) + cut(2, "zb_h1")}, steps);
  check_places(gpt2, by_use + wider.taught() + settings{"parallel.context=2"},
               {stage(3) + states_in_files(), stage(2) + cut(2, "1f1b") + recomputed}, steps);
}

BOOST_AUTO_TEST_CASE(blocks_that_learn_alone_have_the_same_bits_wherever_they_lie) {
  const trained_teacher as_deep(three_layers), deeper(llama_teacher_as_wide);
  const small_job two(two_layers), llama(tiny_llama);
  const settings alone = {"distillation.layer_wise.enabled=true"};
  check_places(two, by_use + as_deep.taught() + alone,
               {stage(2) + recomputed, stage(3) + states_in_files(), stage(3) + cut(2, "1f1b") + recomputed,
                stage(1) + cut(4, "zb_h1"), stage(2) + cut(2, "zb_v", 2)},
               steps);
  check_places(llama, by_use + deeper.taught() + alone + settings{"bf16.enabled=true"},
               {stage(3) + recomputed + settings{"cluster.offload_activations=cpu"}, stage(2) + cut(3, "1f1b")}, steps);
  const settings wide = {"data_types.param_dtype=fp64", "optimizer.params.eps=1.0e-5"};
  const auto whole = train(two, wide + as_deep.taught() + alone, steps);
  for (const settings& each : std::vector<settings>{{"parallel.tensor=2"}, {"parallel.sequence=2"}})
    check_near(train(two, wide + as_deep.taught() + alone + each, steps), whole, 1e-11);
}

BOOST_AUTO_TEST_CASE(blocks_that_are_their_teachers_have_nothing_to_learn_and_one_does_not_change_another) {
  const trained_teacher two_deep(two_layers);
  const small_job job(two_layers);
  const settings alone =
      two_deep.taught() + reduced("[0, 1]") +
      settings{"distillation.layer_wise.enabled=true", "gradient_clipping=0", "optimizer.params.weight_decay=0"};
  for (const auto loss : train(job, alone, 2).losses) BOOST_TEST(std::bit_cast<double>(loss) == 0);
  const auto one = job.open(alone + pruned("row_pruning", "l1", "h.1.mlp.c_fc")),
             both = job.open(alone + pruned("row_pruning", "l1", "mlp.c_fc"));
  for (uint64_t i = 0; i < 4; ++i)
    BOOST_TEST_CONTEXT("i " << i) BOOST_TEST((step_of(*one).loss < step_of(*both).loss) == (i > 0));
  for (uint32_t q = 0; q < both->table().parameters.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    const auto& p = both->table().parameters[q];
    if (p.of_teacher) continue;
    const bool is_of_first = p.name.find("h.0.") != std::string::npos;
    BOOST_TEST((parameter_of(*one, q) == parameter_of(*both, q)) == !is_of_first, p.name);
  }
}

BOOST_AUTO_TEST_CASE(a_teacher_that_cannot_be_cut_is_refused_by_name) {
  const trained_teacher as_deep(three_layers);
  const small_job job(two_layers);
  const settings set = by_use + as_deep.taught() + both_terms;
  const auto says = [&](const settings& more, const std::string& text) {
    const std::string said = refusal_of(job, set + more);
    BOOST_TEST(said.find(text) != std::string::npos, said);
  };
  says(reduced("[2, 1]") + cut(2, "1f1b"),
       "compression_training.layer_reduction.teacher_layer: a pipeline requires ascending layers");
  says({"parallel.tensor=2"}, "distillation.terms.attention: cannot be combined with parallel.tensor 2");
  says({"parallel.context=2"}, "distillation.terms.attention: cannot be combined with parallel.context 2");
  says(settings{"parallel.tensor=2"} + cut(2, "1f1b"),
       "distillation.enabled: cannot be combined with both parallel.tensor 2 and a pipeline");
  says({"parallel.tensor=2", "distillation.terms.attention=0", "parallel.sharded_norms=true"},
       "parallel.sharded_norms: cannot be combined with distillation");
  says({"parallel.tensor=2", "distillation.terms.attention=0", "tensor_parallel.vocab_parallel_lm_head=true"},
       "tensor_parallel.vocab_parallel_lm_head: cannot be combined with distillation");
}

BOOST_AUTO_TEST_SUITE_END()
