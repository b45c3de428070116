// Checks that passes over a host program's units preserve losses, norms, weights and moments for every cut of the run.
// An embedding program's own pass is ordered by its contract, reported in the log, and refused with an error text.
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include "config/sections/unit_passes.hpp"
#include "tests/parity/own_model.hpp"
#include "tests/parity/run_result.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(unit_passes)

using namespace troupe;
using namespace troupe::tests;

namespace {

namespace nn = torch::nn;

constexpr uint64_t steps = 3;
constexpr int64_t w = own_width;
const settings fused = {"compile.deepcompile=true", "compile.passes=[fuse_activation]"};

/// Returns a model with pairs of layers: as separate units, as units with factories, and as entries of a Sequential,
/// followed by dropout.
models::module_model make_pairs() {
  using models::unit;
  return {{unit("words", nn::Embedding(own_vocabulary, w)), unit("up", nn::Linear(w, 3 * w)), unit("relu", nn::ReLU()),
           unit("dropout", nn::Dropout(0.2)), unit("down", [] { return nn::Linear(3 * w, w); }),
           unit("gelu", [] { return nn::GELU(nn::GELUOptions().approximate("tanh")); }),
           unit("mlp", nn::Sequential(nn::Linear(w, 2 * w), nn::ReLU(), nn::Linear(2 * w, w))),
           unit("more", [] { return nn::Sequential(nn::Linear(w, 2 * w), nn::Tanh(), nn::Linear(2 * w, w)); }),
           unit("head", nn::Linear(w, own_vocabulary))},
          [](const at::Tensor& y, const at::Tensor& target) {
            return nn::functional::cross_entropy(y.reshape({-1, y.size(-1)}), target.reshape({-1}));
          }};
}

actors::host_model pairs() { return {&make_pairs, &own_batch, &own_batch}; }
actors::host_model cut_pairs() {
  return {[] {
            return models::inject(make_pairs(), {.rules = {{R"((mlp|more)\.0)", core::tp_style::column},
                                                           {R"((mlp|more)\.2)", core::tp_style::row}}});
          },
          &own_batch, &own_batch};
}

settings stage(int n) { return {fmt::format("zero_optimization.stage={}", n)}; }

void check_both(const settings& set, const actors::host_model& model = pairs(), size_t units = 8) {
  BOOST_TEST_CONTEXT(text_of(set)) {
    auto plain = open_own(set, model), with = open_own(set + fused, model);
    BOOST_TEST(plain->table().units.size() == 9U);
    BOOST_TEST(plain->changed_units().empty());
    BOOST_TEST(with->table().units.size() == units);
    check_same(result_of(*with, steps), result_of(*plain, steps));
    const auto a = plain->evaluate(2), b = with->evaluate(2);
    BOOST_TEST_REQUIRE((a && b));
    BOOST_TEST(*a == *b);
  }
}

std::string refusal(const settings& set, actors::host_model model) {
  const auto s = try_open_own(set, std::move(model));
  return s ? "accepted" : s.error().text;
}

std::shared_ptr<const models::unit_pass> own(models::unit_pass x) {
  return std::make_shared<const models::unit_pass>(std::move(x));
}

}  // namespace

BOOST_AUTO_TEST_CASE(configuration_knows_ours_by_their_names) {
  for (const auto& x : models::all_unit_passes()) BOOST_TEST(config::changes_units(x.name));
  BOOST_TEST(!config::changes_units("prefetch"));
}

BOOST_AUTO_TEST_CASE(fused_activations_keep_all_bits) {
  const settings micros = {"gradient_accumulation_steps=2"}, bf16 = {"bf16.enabled=true"};
  check_both({});
  check_both(bf16 + micros);
  check_both(settings{"parallel.data=2"} + stage(3) + micros);
  check_both(settings{"parallel.data=2"} + stage(3) + bf16);
  check_both(settings{"parallel.data=2", "activation_checkpointing.enabled=true"} + stage(2), pairs(), 7);
  for (const char* schedule : {"1f1b", "zb_h1"})
    check_both(settings{"parallel.data=2", "parallel.pipeline=2", std::string("pipeline.schedule=") + schedule} +
               stage(1) + micros);
}

BOOST_AUTO_TEST_CASE(over_tensor_ranks_entries_are_fused_and_units_stay) {
  check_both({"parallel.tensor=2"}, cut_pairs(), 9);
  check_both(settings{"parallel.tensor=2", "parallel.data=2"} + stage(3), cut_pairs(), 9);
  const auto s = open_own(settings{"parallel.tensor=2"} + fused, cut_pairs());
  BOOST_TEST(s->changed_units() ==
             "pass fuse_activation: 1 entry of a Sequential joins its linear layer, 1 Sequential is looked at when it "
             "is built; units stay apart over tensor ranks; 9 units -> 9\n");
}

BOOST_AUTO_TEST_CASE(units_that_the_cut_names_stay) {
  const settings typed = {"parallel.pipeline=2", "pipeline.partition=type:up|head"};
  check_both(typed, pairs(), 9);
}

BOOST_AUTO_TEST_CASE(it_is_part_of_auto_and_off_without_it) {
  BOOST_TEST(open_own({"compile.deepcompile=true"}, pairs())->table().units.size() == 8U);
  // If there is a memory budget, units may be recomputed, and a unit of GELU then keeps one input less.
  BOOST_TEST(open_own({"compile.deepcompile=true", "compile.memory_budget=1GiB"}, pairs())->table().units.size() == 7U);
  BOOST_TEST(open_own({"compile.deepcompile=true", "compile.passes=[prefetch]"}, pairs())->table().units.size() == 9U);
  BOOST_TEST(open_own({}, pairs())->table().units.size() == 9U);
}

BOOST_AUTO_TEST_CASE(fewer_bytes_are_saved_and_states_keep_their_names) {
  const auto plain = open_own({}, pairs()), with = open_own(fused, pairs());
  const auto saved = [](const actors::session& s) {
    uint64_t out = 0;
    for (const auto& u : s.table().units) out += u.input_bytes + u.segments[0].saved_bytes;
    return out;
  };
  BOOST_TEST(saved(*with) < saved(*plain));
  BOOST_TEST_REQUIRE(with->table().parameters.size() == plain->table().parameters.size());
  for (size_t q = 0; q < plain->table().parameters.size(); ++q)
    BOOST_TEST(with->table().parameters[q].name == plain->table().parameters[q].name);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_loaded_with_and_without_it) {
  const scratch_folder folder;
  for (const bool first : {false, true}) {
    BOOST_TEST_INFO_SCOPE("first " << first);
    const settings before = first ? fused : settings{}, after = first ? settings{} : fused;
    auto a = open_own(stage(3) + before, pairs());
    (void)result_of(*a, steps);
    const auto saved = a->save({.root = folder.path() / fmt::to_string(first)});
    BOOST_TEST_REQUIRE(saved.has_value(), (saved ? "" : saved.error().text));
    const auto b = actors::session::open(
        {.config = own_config(stage(1) + after), .resume = *saved, .model = actors::own_model(pairs())});
    BOOST_TEST_REQUIRE(b.has_value(), (b ? "" : b.error().text));
    for (uint32_t q = 0; q < a->table().parameters.size(); ++q)
      BOOST_TEST((parameter_of(**b, q) == parameter_of(*a, q)));
  }
}

BOOST_AUTO_TEST_CASE(a_programs_own_pass_is_ordered_told_of_and_refused_with_a_sentence) {
  auto model = pairs();
  std::vector<size_t> seen;
  // This pass turns the entries of a Sequential into units, and must run before Troupe's pass looks for neighbouring
  // units.
  model.passes = {
      own({.name = "split",
           .promise = {.needs = {std::string(models::unit_facts::apart)}},
           .run =
               [&](models::module_model& m, const models::unit_surroundings& s) {
                 seen.push_back(s.nodes.size());
                 auto& u = m.units[6];
                 const auto all = std::dynamic_pointer_cast<nn::SequentialImpl>(u.module);
                 const auto layer = std::dynamic_pointer_cast<nn::LinearImpl>(all->ptr(0));
                 const auto last = std::dynamic_pointer_cast<nn::LinearImpl>(all->ptr(2));
                 u = models::unit("mlp.0", layer);
                 m.units.insert(m.units.begin() + 7, {models::unit("mlp.1", nn::ReLU()), models::unit("mlp.2", last)});
                 return std::string("mlp by its entries");
               },
           .reads_nodes = true})};
  const settings recomputed = {"activation_checkpointing.enabled=true"};
  const auto s = open_own(fused + recomputed, model);
  BOOST_TEST(s->changed_units().starts_with("pass split: mlp by its entries; 9 units -> 11\npass fuse_activation: 3 "));
  BOOST_TEST(s->table().units.size() == 8U);
  BOOST_TEST((seen == std::vector<size_t>{9}));
  const auto plain = open_own({}, pairs());
  check_same(result_of(*s, steps), result_of(*plain, steps));

  model.passes = {own({.name = "broken", .run = [](auto&, const auto&) -> std::string {
                         throw std::runtime_error("wanted an attention, got none");
                       }})};
  BOOST_TEST(refusal({}, model) == "pass broken: wanted an attention, got none");
  model.passes = {own({.name = "foe", .promise = {.conflicts = {"fuse_activation"}}, .run = {}})};
  BOOST_TEST(refusal(fused, model) == "passes over units: passes foe and fuse_activation conflict");
}

BOOST_AUTO_TEST_CASE(units_do_not_change_between_steps) {
  const auto s = open_own({}, pairs());
  const auto refused = s->compile({{.step = 1, .passes = {"fuse_activation"}}});
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text ==
             "passes between two steps: wanted no pass that changes a host's units, which are fixed when the session "
             "opens, got fuse_activation");
}

BOOST_AUTO_TEST_SUITE_END()
