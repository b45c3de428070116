// Checks that a model with LoRA adapters trains alike over ZeRO stages, pipelines, tiers, recomputation and resumes,
// bit by bit; that its base stays as it is; and that its steps are those of peft with AdamW
// (tests/peer/make_lora_fixtures.py).
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/check_ok.hpp"
#include "tests/parity/cuts.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(adapters)

using namespace troupe;
using namespace troupe::tests;

namespace {

using json = nlohmann::json;

const std::string lora = "lora: {r: 4, alpha: 8, dropout: 0.1, targets: all-linear}\n";

const json& fixture() {
  static const json all = [] {
    std::ifstream file(std::string(troupe::places::source_dir) + "/tests/parity/fixtures/lora.json");
    return json::parse(file);
  }();
  return all;
}

std::string fixtures_of_models() { return std::string(troupe::places::source_dir) + "/tests/models/fixtures/"; }

/// Sets all matrices B, which begin as 0, so that gradients of A are not 0 in the first step.
void set_b(actors::session& s) {
  for (const auto& p : s.table().parameters) {
    if (!p.name.ends_with(".lora_B.weight")) continue;
    std::vector<float> values(p.numel());
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.02F * static_cast<float>(static_cast<int>(i % 7) - 3);
    check_ok(s.states().set_full_fp32_param(p.name, values));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_cut_has_the_bits_of_the_uncut_model_and_resumes_as_any_other) {
  for (const settings& type : {settings{}, settings{"bf16.enabled=true"}}) {
    const small_job job(llama + lora);
    auto all = cuts(job);
    all.push_back({"recomputed", 2, stage(2) + settings{"activation_checkpointing.enabled=true"}});
    all.push_back({"split backward", 2, pipeline(2, "zb_h1") + stage(3)});
    const auto& uncut = all.front();
    const auto whole = open(job, uncut.all() + type);
    set_b(*whole);
    const auto start = sound(whole->save({.root = job.folder() / "start"}));
    const auto losses = losses_of(*whole, before);
    const auto saved = sound(whole->save({.root = job.folder() / "saved"}));
    const auto next = losses_of(*whole, after);
    BOOST_TEST(losses.front() != losses.back());
    for (const cut& c : all) BOOST_TEST_CONTEXT(c.name << text_of(type)) {
        if (!c.adds_alike(uncut)) continue;
        auto s = open(job, c.all() + type, start);
        BOOST_TEST(losses_of(*s, before) == losses, boost::test_tools::per_element());
        const auto reached = tensors_of(*s);
        s.reset();  // both sessions may have the same swap files
        const auto resumed = open(job, c.all() + type, saved);
        check_equal(reached, tensors_of(*resumed));
        BOOST_TEST(losses_of(*resumed, after) == next, boost::test_tools::per_element());
      }
  }
}

BOOST_AUTO_TEST_CASE(stages_of_a_pipeline_without_a_trained_parameter_leave_the_bits) {
  const small_job job(llama + "lora: {r: 2, targets: [model.layers.2.self_attn.q_proj]}\n");
  const cut whole{"uncut", 2, stage(2)};
  const auto wanted = losses_of(*open(job, whole.all()), 3);
  for (const cut& c :
       {cut{"pipeline 2", 2, pipeline(2, "1f1b") + stage(3)}, cut{"pipeline 3", 2, pipeline(3, "zb_h1") + stage(1)}})
    BOOST_TEST_CONTEXT(c.name) {
      BOOST_TEST(losses_of(*open(job, c.all()), 3) == wanted, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(tensor_ranks_train_the_adapters_that_one_rank_trains) {
  const settings type = {"data_types.param_dtype=fp64", "optimizer.params.eps=1.0e-5"};
  const std::string plain = "lora: {r: 4, alpha: 8, targets: all-linear}\n";
  for (const std::string& model : {gpt2, llama}) {
    const small_job job(model + plain);
    auto all = tensor_cuts(job);
    all.push_back({"sharded norms", 2, stage(1) + settings{"parallel.sharded_norms=true"}, "per_use", 2});
    all.push_back({"in pieces", 2, stage(2) + settings{"tensor_parallel.exchange_pieces=2"}, "per_use", 2});
    all.push_back({"recomputed", 2, stage(2) + settings{"activation_checkpointing.enabled=true"}, "per_use", 2});
    const auto whole = open(job, all.front().all() + type);
    set_b(*whole);
    const auto start = sound(whole->save({.root = job.folder() / "start"}));
    const auto losses = losses_of(*whole, 3);
    const auto ends = tensors_of(*whole);
    std::map<std::string, std::vector<double>> first;  // by the degrees that decide the bits
    for (const cut& c : all) BOOST_TEST_CONTEXT(model << c.name) {
        if (c.name.ends_with("in files")) continue;
        const auto s = open(job, c.all() + type, start);
        const auto got = losses_of(*s, 3);
        for (size_t i = 0; i < got.size(); ++i) BOOST_TEST(std::abs(got[i] / losses[i] - 1) <= 1e-12);
        for (const auto& [name, values] : tensors_of(*s)) {
          double difference = 0, size = 0;
          for (size_t i = 0; i < values.size(); ++i) {
            difference += std::pow(double{values[i]} - double{ends.at(name)[i]}, 2);
            size += std::pow(double{ends.at(name)[i]}, 2);
          }
          BOOST_TEST(std::sqrt(difference) <= 1e-6 * std::sqrt(size), name);
        }
        if (c.name == "sharded norms") continue;  // sums of norms' gradients have another order
        const auto key = fmt::format("{} {} {} {}", c.data, c.tensor, c.columns, c.tied);
        BOOST_TEST(got == first.emplace(key, got).first->second, boost::test_tools::per_element());
      }
  }
}

BOOST_AUTO_TEST_CASE(only_adapters_change) {
  const small_job job(llama + lora);
  const auto s = open(job, cuts(job).front().all());
  const auto& table = s->table();
  std::vector<std::vector<float>> first;
  for (uint32_t q = 0; q < table.parameters.size(); ++q) first.push_back(parameter_of(*s, q));
  losses_of(*s, 3);
  uint64_t trained = 0;
  for (uint32_t q = 0; q < table.parameters.size(); ++q) {
    const auto& p = table.parameters[q];
    trained += p.trainable ? p.numel() : 0;
    BOOST_TEST(p.trainable == p.of_adapter, p.name);
    BOOST_TEST(same_bits({parameter_of(*s, q)}, {first[q]}) != p.trainable, p.name);
  }
  BOOST_TEST(trained * 4 < table.numel());
}

BOOST_AUTO_TEST_CASE(backward_of_a_frozen_weight_counts_the_gradient_of_its_input_alone) {
  constexpr double tokens = 2 * 16, rank = 4, width = 32, keys = 16, inner = 64, vocabulary = 96;
  const small_job base(llama), adapted(llama + "lora: {r: 4, targets: all-linear}\n");
  const auto whole = open(base, {}), frozen = open(adapted, {});
  const auto backward = [](const actors::session& s) {
    std::map<uint32_t, double> out;  // flops by unit
    for (const auto& x : s.training_plan(0).instructions)
      if (x.kind == plan::kind::backward) out[x.subject] += x.flops;
    return out;
  };
  const auto all = backward(*whole), some = backward(*frozen);
  const auto last = static_cast<uint32_t>(frozen->table().units.size()) - 1;
  BOOST_TEST_REQUIRE(some.size() == last);  // all units but the embedding
  BOOST_TEST(!some.contains(0));
  const double products = 2 * tokens * (2 * width * width + 2 * width * keys + 3 * width * inner);
  const double widths = 2 * (width + width) + 2 * (width + keys) + 3 * (width + inner);
  const double of_adapters = 2 * tokens * rank * widths;
  constexpr double close = 1e-12;
  for (uint32_t u = 1; u < last; ++u)
    BOOST_TEST(some.at(u) == all.at(u) - products + 2 * of_adapters, boost::test_tools::tolerance(close));
  BOOST_TEST(some.at(last) == all.at(last) - 2 * tokens * width * vocabulary, boost::test_tools::tolerance(close));
  double sum = 0;
  for (const auto& unit : frozen->table().units)
    for (const auto& segment : unit.segments) sum += segment.forward_flops;
  for (const auto& [unit, flops] : some) sum += flops;
  BOOST_TEST(frozen->table().step_flops() == sum, boost::test_tools::tolerance(close));
}

BOOST_AUTO_TEST_CASE(a_frozen_base_in_16_bits_is_held_once) {
  const small_job job(llama + lora);
  for (const cut& c : cuts(job)) BOOST_TEST_CONTEXT(c.name) {
      const auto s = open(job, c.all() + settings{"bf16.enabled=true"});
      const auto& p = s->training_plan(0);
      uint64_t states = 0, whole = 0;  // elements of this rank's states, and of all parameters that it holds
      for (uint32_t q = 0; q < s->table().parameters.size(); ++q) {
        states += core::round_up(p.layout->state_slice(q, 0).count, core::parameter_grain);
        whole += p.layout->holds(0, q) ? core::round_up(s->table().parameters[q].numel(), core::parameter_grain) : 0;
      }
      const auto memory = s->memory()[0].resident;
      BOOST_TEST(memory.master <= states * sizeof(float));
      BOOST_TEST(memory.moments <= 2 * states * sizeof(float));
      BOOST_TEST(memory.parameters <= whole * 2);
    }
}

BOOST_AUTO_TEST_CASE(steps_with_an_adapter_of_peft_are_those_of_peft) {
  for (const auto& run : fixture()["runs"]) BOOST_TEST_CONTEXT(run["base"]) {
      const auto base = run["base"].get<std::string>();
      const small_job job(
          fmt::format("model: {{path: {0}{1}}}\nlora: {{from: {0}lora_{1}}}\n", fixtures_of_models(), base),
          fixture()["text"].get<std::string>());
      const settings common = {"parallel.data=2",
                               "train_micro_batch_size_per_gpu=1",
                               "gradient_accumulation_steps=2",
                               "zero_optimization.stage=3",
                               "gradient_clipping=0",
                               "data_types.param_dtype=fp64",
                               "data.sequence_length=" + fixture()["columns"].dump(),
                               "optimizer.params=" + fixture()["adamw"].dump()};
      const auto s = open(job, common);
      // In transformers the angles of rotary positions, which gpt2 has not, are fp32 in a model of fp64, too.
      const double bound = base == "gpt2" ? 1e-9 : 2e-8;
      for (const double wanted : run["losses"].get<std::vector<double>>()) {
        const double loss = step_of(*s).loss;
        BOOST_TEST(std::abs(loss / wanted - 1) <= bound, fmt::format("{} for {}", loss, wanted));
      }
      size_t compared = 0;
      for (uint32_t q = 0; q < s->table().parameters.size(); ++q) {
        const auto& p = s->table().parameters[q];
        if (!p.trainable) continue;
        ++compared;
        const auto values = parameter_of(*s, q);
        const double sum = std::accumulate(values.begin(), values.end(), 0.0);
        const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
        const auto wanted = run["ends"][p.name].get<std::vector<double>>();
        BOOST_TEST(std::abs(sum - wanted[0]) <= 1e-5, p.name << ": sum " << sum << " for " << wanted[0]);
        BOOST_TEST(std::abs(std::sqrt(square) / wanted[1] - 1) <= 1e-6, p.name);
      }
      BOOST_TEST(compared == run["ends"].size());
    }
}

BOOST_AUTO_TEST_CASE(an_export_is_a_folder_of_peft_with_which_a_run_begins_where_it_was) {
  const std::string model = "model: {path: " + fixtures_of_models() + "llama}\n";
  const auto text = fixture()["text"].get<std::string>();
  const small_job job(model + lora, text);
  const settings common = {"data.sequence_length=12"};
  const auto s = open(job, common);
  losses_of(*s, 2);
  const auto folder = job.folder() / "adapter";
  sound(s->export_hugging_face(folder.string()));
  const small_job again(model + "lora: {dropout: 0.1, from: " + folder.string() + "}\n", text);
  const auto t = open(again, common);
  for (uint32_t q = 0; q < s->table().parameters.size(); ++q)
    BOOST_TEST(same_bits({parameter_of(*s, q)}, {parameter_of(*t, q)}), s->table().parameters[q].name);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_the_base_lets_adapters_begin_anew_and_one_with_another_factor_is_refused) {
  const small_job base(llama), job(llama + lora);
  const auto cut = cuts(job).front().all();
  const auto of_base = open(base, cut);
  losses_of(*of_base, 1);
  const auto weights = sound(of_base->save({.root = base.folder() / "base"}));
  auto begun =
      actors::session::open({.config = job.config(cut), .resume = weights, .load = {.load_module_only = true}});
  const auto& s = *check_ok(begun);
  for (uint32_t q = 0; q < of_base->table().parameters.size(); ++q)
    BOOST_TEST(same_bits({parameter_of(*s, q)}, {parameter_of(*of_base, q)}));
  losses_of(*s, 1);
  const auto saved = sound(s->save({.root = job.folder() / "saved", .configuration = llama + lora}));
  const auto other = actors::session::open({.config = job.config(cut + settings{"lora.alpha=2"}), .resume = saved});
  check_failed(other, core::error_kind::mismatch, "its run multiplied the outputs of adapters by 2, and this run");
}

BOOST_AUTO_TEST_SUITE_END()
