// Checks that ranks of a tensor group train the same model as one rank: losses, gradient norms and weights are equal up
// to rounding, and bit-identical over all cuts with the same tensor degree.
#include <fmt/format.h>

#include <fstream>

#include "actors/session/state_access.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(tensor)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;

const std::string zero = "zero_optimization.";

settings ranks(int degree) { return {fmt::format("parallel.tensor={}", degree)}; }
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
settings micros(int n) { return {fmt::format("gradient_accumulation_steps={}", n)}; }

/// Returns the bytes that this process has read so far, from files of all kinds.
uint64_t bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  uint64_t out = 0;
  counters >> name >> out;
  BOOST_TEST_REQUIRE(name == "rchar:");
  return out;
}

const settings muon = {"optimizer.type=Muon", "optimizer.params.muon_lr=0.02", "optimizer.params.adam_lr=0.003"};

void check_weights(const run_result& got, const run_result& wanted) {
  const auto wide = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
  for (size_t q = 0; q < wanted.weights.size(); ++q)
    BOOST_TEST(relative_difference(wide(got.weights[q]), wide(wanted.weights[q])) <= 1e-6, "parameter " << q);
}

/// A model of six query heads and three key-value heads: shards differ in size at degrees 2 and 4, and at degree 4 the
/// last rank has no head.
const std::string grouped_llama =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 48, num_attention_heads: 6, num_key_value_heads: 3, "
    "intermediate_size: 50, max_position_embeddings: 24, vocab_size: 96}\n";

}  // namespace

BOOST_AUTO_TEST_CASE(losses_and_weights_are_those_of_the_uncut_model) {
  for (const std::string& model : {tiny_gpt2, tiny_gpt2_with_dropout, grouped_llama}) {
    const small_job job(model);
    for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 1e-5}}) {
      const auto common =
          micros(2) + settings{std::string("data_types.param_dtype=") + type, "optimizer.params.eps=1.0e-5"};
      const auto whole = train(job, common, steps, first_gradients::read);
      for (const int degree : {2, 3, 4}) BOOST_TEST_CONTEXT(model << type << ", tensor " << degree) {
          const auto cut = train(job, common + ranks(degree), steps, first_gradients::read);
          check_near(cut, whole, most);
          check_gradients(cut, whole, most);
          if (most < 1e-6) check_weights(cut, whole);
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(blocks_that_a_partition_config_leaves_whole_train_as_the_uncut_model) {
  const std::string first =
      "tensor_parallel.partition_config={layer_specs: ["
      "{patterns: ['.*\\.0\\.mlp', '.*\\.1\\.(self_)?attn'], partition_type: skip}, "
      "{patterns: ['.*(c_attn|c_fc|[qkv]_proj|gate_proj|up_proj)\\.weight$'], partition_type: column}, "
      "{patterns: ['.*(c_proj|o_proj|down_proj)\\.weight$'], partition_type: row}";
  const std::string vocabulary = ", {patterns: ['.*(wte|embed_tokens)\\.weight$']}";
  for (const std::string& model : {tiny_gpt2_with_dropout, grouped_llama})
    for (const std::string& specs : {first + "]}", first + vocabulary + "]}"}) {
      const small_job job(model);
      const settings common = micros(2) + settings{"optimizer.params.eps=1.0e-5"};
      const settings cut = common + ranks(2) + settings{specs, "tensor_parallel.tp.tp_grain_size=4"};
      BOOST_TEST_CONTEXT(model << specs) {
        const auto got = train(job, cut, steps, first_gradients::read),
                   whole = train(job, common, steps, first_gradients::read);
        check_near(got, whole, 1e-5);
        check_gradients(got, whole, 1e-5);
        const settings exact = cut + settings{"parallel.data=2", "gradient_order=per_step", "tied_gradients=per_use"};
        check_same(train(job, exact + stage(3) + settings{"parallel.pipeline=2"}, steps), train(job, exact, steps));
      }
    }
}

BOOST_AUTO_TEST_CASE(every_zero_stage_and_pipeline_has_the_same_bits) {
  const small_job job(tiny_gpt2_with_dropout);
  const auto common =
      ranks(2) + micros(4) + settings{"gradient_order=per_step", "tied_gradients=per_use", "parallel.data=2"};
  const auto reference = train(job, common + stage(0), steps);
  for (const auto& cut :
       {stage(1), stage(2), stage(3), stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
        stage(1) + settings{"parallel.pipeline=2", "pipeline.schedule=1f1b"},
        stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=dual_pipe_v"},
        stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=dual_pipe_v",
                            zero + "stage3_max_reuse_distance=0", zero + "stage3_param_persistence_threshold=0",
                            "activation_checkpointing.enabled=true"}})
    BOOST_TEST_CONTEXT(text_of(cut)) { check_same(train(job, common + cut, steps), reference); }
}

BOOST_AUTO_TEST_CASE(norms_of_lamb_are_those_of_whole_parameters) {
  const small_job job(grouped_llama);
  for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 1e-5}}) {
    const auto common = micros(2) + settings{std::string("data_types.param_dtype=") + type, "optimizer.type=Lamb"};
    const auto whole = train(job, common, steps);
    for (const int degree : {2, 4})
      for (const int zero_stage : {0, 3})
        BOOST_TEST_CONTEXT(type << ", tensor " << degree << ", stage " << zero_stage) {
          check_near(train(job, common + ranks(degree) + stage(zero_stage), steps), whole, most);
        }
  }
}

/// The models have padding, packed queries, keys and values, and a rank without heads, but Muon must orthogonalise
/// whole matrices.
BOOST_AUTO_TEST_CASE(matrices_of_muon_are_whole_parameters) {
  for (const std::string& model : {tiny_gpt2_with_dropout, grouped_llama}) {
    const small_job job(model);
    for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 1e-5}}) {
      const auto common = micros(2) + muon + settings{std::string("data_types.param_dtype=") + type};
      const auto whole = train(job, common, steps);
      BOOST_TEST(whole.losses.front() != whole.losses.back());
      for (const int degree : {2, 3, 4}) BOOST_TEST_CONTEXT(model << type << ", tensor " << degree) {
          const auto cut = train(job, common + ranks(degree) + stage(degree - 1), steps);
          check_near(cut, whole, most);
          if (most < 1e-6) check_weights(cut, whole);
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(matrices_of_muon_leave_the_same_bits_at_every_stage_and_cut) {
  for (const auto& [model, degree] : {std::pair{tiny_gpt2, 2}, std::pair{grouped_llama, 3}}) {
    const small_job job(model);
    const auto common = ranks(degree) + micros(4) + muon +
                        settings{"gradient_order=per_step", "tied_gradients=per_use",
                                 "parallel.data=" + std::string(degree == 2 ? "4" : "2"),
                                 degree == 2 ? "gradient_clipping=0.5" : "bf16.enabled=true"};
    const auto reference = train(job, common + stage(0), steps);
    const settings small = {zero + "sub_group_size=4096", zero + "allgather_bucket_size=9000",
                            zero + "reduce_bucket_size=8192", zero + "stage3_param_persistence_threshold=0",
                            zero + "stage3_max_reuse_distance=0"};
    for (const auto& cut :
         {stage(0) + small, stage(1), stage(2) + small, stage(3), stage(3) + small,
          stage(3) + settings{zero + "zero_hpz_partition_size=2"}, stage(2) + settings{"parallel.shard=1"},
          stage(3) + small + settings{"parallel.shard=1"}, stage(2) + settings{zero + "offload_optimizer.device=cpu"},
          stage(0) + settings{"parallel.pipeline=2", "pipeline.schedule=1f1b"},
          stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_v"},
          stage(1) + small +
              settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1", "parallel.shard=1",
                       "activation_checkpointing.enabled=true", "cluster.offload_activations=cpu"}})
      BOOST_TEST_CONTEXT(model << text_of(common + cut)) { check_same(train(job, common + cut, steps), reference); }
  }
}

BOOST_AUTO_TEST_CASE(tiers_and_precisions_leave_the_bits) {
  const small_job job(tiny_llama);
  const std::string path = (job.folder() / "swap").string();
  const settings files = {zero + "offload_optimizer.device=nvme", zero + "offload_optimizer.nvme_path=" + path,
                          zero + "offload_param.device=nvme", zero + "offload_param.nvme_path=" + path};
  for (const std::string type : {"fp32", "bf16"}) {
    BOOST_TEST_INFO_SCOPE(type);
    auto common = ranks(2) + micros(2) + settings{"parallel.data=2", "gradient_order=per_step"};
    if (type == "bf16") common.push_back("bf16.enabled=true");
    const auto reference = train(job, common + stage(1), steps);
    BOOST_TEST(reference.losses.front() != reference.losses.back());
    check_same(train(job, common + stage(3) + files, steps), reference);
    const settings recomputed = {"activation_checkpointing.enabled=true"};
    check_same(train(job, common + recomputed, steps), reference);
    check_same(
        train(job, common + stage(3) + recomputed + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"}, steps),
        reference);
    check_same(train(job, common + stage(2) + settings{zero + "offload_optimizer.device=cpu"}, steps), reference);
    check_same(train(job, common + stage(3) + settings{"parallel.shard=1"}, steps), reference);
    check_same(train(job, common + stage(3) + settings{zero + "zero_hpz_partition_size=2"}, steps), reference);
    check_same(train(job,
                     common + stage(3) +
                         settings{zero + "offload_optimizer.device=cpu", zero + "offload_optimizer.super_offload=true",
                                  "cluster.early_updates=true"},
                     steps),
               reference);
  }
}

// A rank keeps the values that were exchanged within a unit on the device, while the unit's input is offloaded. Each
// cut offloads to one tier at half of the degrees and models, to the other at the other half; `make soak` tests all of
// them.
BOOST_AUTO_TEST_CASE(inputs_of_units_that_wait_elsewhere_leave_the_bits) {
  const auto pipelined = [](const char* schedule) {
    return settings{"parallel.pipeline=2", std::string("pipeline.schedule=") + schedule};
  };
  const bool every_tier = wanted_cases("TROUPE_CASES", 0) > 0;
  size_t first = 0;
  for (const std::string& model : {tiny_gpt2_with_dropout, grouped_llama})
    for (const int degree : {2, 3}) {
      const small_job job(model);
      ++first;
      auto common = ranks(degree) + micros(3) + settings{"gradient_order=per_step", "tied_gradients=per_use"};
      common.push_back(degree == 2 ? "parallel.data=2" : "bf16.enabled=true");
      const auto reference = train(job, common + stage(1), steps);
      BOOST_TEST(reference.losses.front() != reference.losses.back());
      for (const std::string tier : {"cpu", "nvme"}) {
        size_t n = first + (tier == "cpu" ? 0 : 1);
        for (const auto& cut :
             {stage(0), stage(3) + settings{zero + "stage3_max_reuse_distance=0"},
              stage(2) + settings{"cluster.offload_activations_units=1"}, stage(1) + pipelined("1f1b"),
              stage(3) + pipelined("zb_h1"), stage(3) + pipelined("dual_pipe_v")}) {
          if (++n % 2 == 0 && !every_tier) continue;
          const settings waits = {"activation_checkpointing.enabled=true", "cluster.offload_activations=" + tier,
                                  zero + "offload_optimizer.nvme_path=" + (job.folder() / "swap").string()};
          BOOST_TEST_CONTEXT(model << text_of(common + cut + waits)) {
            const auto got = train(job, common + cut + waits, steps);
            check_same(got, reference);
            BOOST_TEST((got.memory.offloaded_activations > 0 || text_of(cut).ends_with("dual_pipe_v")));
          }
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(an_evaluation_and_a_sample_are_the_uncut_models) {
  const small_job job(tiny_gpt2);
  const settings common = {"data.validation_fraction=0.1", "data_types.param_dtype=fp64"};
  const auto whole = job.open(common), cut = job.open(common + ranks(4) + settings{"parallel.pipeline=2"});
  step_of(*whole);
  step_of(*cut);
  const auto a = whole->evaluate({.batches = 3}), b = cut->evaluate({.batches = 3});
  BOOST_TEST_REQUIRE((a && b));
  BOOST_TEST(b->loss == a->loss, boost::test_tools::tolerance(1e-12));
  // The logits of a batch position, which must be complete although each rank computes only some columns.
  struct output {
    std::vector<int64_t> shape;
    std::vector<double> values;
  };
  std::vector<output> of_whole, of_cut;
  const auto kept = [](std::vector<output>& into) {
    return actors::evaluation_request{
        .batches = 2, .on_output = [&](const actors::evaluated_output& x) {
          into.push_back({{x.shape.begin(), x.shape.end()}, {x.values.begin(), x.values.end()}});
        }};
  };
  BOOST_TEST_REQUIRE((whole->evaluate(kept(of_whole)) && cut->evaluate(kept(of_cut))));
  BOOST_TEST_REQUIRE(of_cut.size() == of_whole.size());
  for (size_t i = 0; i < of_cut.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(of_cut[i].shape == of_whole[i].shape, boost::test_tools::per_element());
    BOOST_TEST(relative_difference(of_cut[i].values, of_whole[i].values) <= 1e-6);
  }
  const auto said = whole->generate({1, 2, 3}, 12, 0), again = cut->generate({1, 2, 3}, 12, 0);
  BOOST_TEST_REQUIRE((said && again));
  BOOST_TEST(*said == *again, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(states_are_read_written_and_exported_whole) {
  const small_job job(grouped_llama);
  const auto s = job.open(ranks(4) + stage(3) + settings{"parallel.data=2"});
  const auto whole = job.open(stage(3) + settings{"parallel.data=2"});
  for (uint32_t q = 0; q < s->table().parameters.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    const std::string& name = s->table().parameters[q].name;
    BOOST_TEST(s->table().parameters[q].shape == whole->table().parameters[q].shape, boost::test_tools::per_element());
    auto values = parameter_of(*s, q);
    // Both runs have equal initial values.
    BOOST_TEST(values == parameter_of(*whole, q), boost::test_tools::per_element());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 1024;
    BOOST_TEST_REQUIRE(s->states().set_full_fp32_param(name, values).has_value());
    BOOST_TEST(*s->states().get_full_fp32_param(name) == values, boost::test_tools::per_element());
  }
  const auto folder = (job.folder() / "exported").string();
  BOOST_TEST_REQUIRE(whole->export_hugging_face(folder, uint64_t{1} << 30).has_value());
  const small_job again("model: {path: '" + folder + "'}\n");
  check_near(train(again, ranks(2), steps), train(again, {}, steps), 1e-5);
}

BOOST_AUTO_TEST_CASE(ranks_read_their_own_bytes_of_a_models_files) {
  const small_job made(
      "model: {model_type: gpt2, n_layer: 4, n_embd: 192, n_head: 4, n_positions: 24, vocab_size: 2048}\n");
  const auto folder = (made.folder() / "exported").string();
  const settings bytes = {"data.tokenizer=bytes-as-ids"};
  const auto s = made.open(bytes);
  BOOST_TEST_REQUIRE(s->export_hugging_face(folder, uint64_t{1} << 30).has_value());
  const small_job job("model: {path: '" + folder + "'}\n");
  const auto read_by_opening = [&](const settings& set) {
    const uint64_t before = bytes_read();
    const auto opened = job.open(set + bytes);
    return bytes_read() - before;
  };
  const uint64_t model = s->table().numel() * sizeof(float), alone = read_by_opening({});
  BOOST_TEST(alone >= model);
  for (const int degree : {2, 4})
    for (const int n : {0, 3})
      // Each rank opens the files itself and reads norms, positions and the last biases completely, which the bound
      // allows for.
      BOOST_TEST(read_by_opening(ranks(degree) + stage(n)) <= alone + model / 20 * static_cast<uint64_t>(degree - 1),
                 "tensor " << degree << ", stage " << n);
}

BOOST_AUTO_TEST_CASE(more_ranks_than_heads_are_refused) {
  const small_job job(tiny_gpt2);
  const auto refused = [&](const settings& set, const std::string& what) {
    const auto opened = job.try_open(ranks(2) + set);
    BOOST_TEST_REQUIRE(!opened.has_value());
    BOOST_TEST(opened.error().text.find("parallel.tensor: " + what) != std::string::npos, opened.error().text);
  };
  refused({"parallel.tensor=5"}, "wanted at most 4 ranks, one for each attention head, got 5");
}

BOOST_AUTO_TEST_SUITE_END()
