// Tests a host program's own modules whose compression is made permanent: their outputs equal those of the run,
// whatever the techniques and their order, and they become smaller if related modules are named. Also tests refusals.
#include "compression/redundancy_clean.hpp"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/normalization.h>

#include <map>

#include "actors/session/state_access.hpp"
#include "tests/check_ok.hpp"
#include "tests/compression/host_modules.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(redundancy_clean)

using namespace troupe;
using namespace troupe::tests;

namespace {

using factory = models::module_factory;

std::unique_ptr<actors::session> open(const factory& make, const std::string& section, const std::string& keys = "") {
  auto ready =
      check_ok(compression::init_compression({make, &picture_batch, &picture_batch}, compressing(section, keys)));
  auto s = check_ok(actors::session::open(std::move(*ready)));
  return std::move(*s);
}

std::vector<float> outputs_of_run(actors::session& s) {
  std::vector<float> out;
  const auto take = [&](const actors::evaluated_output& x) {
    if (x.rank == 0) out.assign(x.values.begin(), x.values.end());
  };
  check_ok(s.evaluate({.batches = 1, .on_output = take}));
  return out;
}

std::vector<float> outputs_of(const models::module_model& m) {
  const at::NoGradGuard no_grad;
  at::Tensor x = picture_batch(0, 0, 0).input;
  for (const auto& u : m.units) x = u.forward(x);
  const at::Tensor y = x.contiguous();
  return {y.const_data_ptr<float>(), y.const_data_ptr<float>() + y.numel()};
}

void check_near(const std::vector<float>& got, const std::vector<float>& wanted, double most) {
  BOOST_TEST_REQUIRE(got.size() == wanted.size());
  double size = 0, apart = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    size = std::max(size, double(std::abs(wanted[i])));
    apart = std::max(apart, double(std::abs(got[i] - wanted[i])));
  }
  BOOST_TEST(size > 0);
  BOOST_TEST(apart <= most * size, apart << " of " << size);
}

using shapes = std::map<std::string, std::vector<int64_t>>;
shapes shapes_of(const models::module_model& m) {
  shapes out;
  for (const auto& u : m.units)
    if (u.module)
      for (const auto& p : u.module->named_parameters()) out[u.name + "." + p.key()] = p.value().sizes().vec();
  return out;
}

/// Trains a few steps, makes the compression permanent, and compares the outputs with those of the run. Returns the
/// shapes that have changed.
shapes check_cleaned(const factory& make, const std::string& section, const std::string& keys = "",
                     double most = 1e-6) {
  shapes changed;
  BOOST_TEST_CONTEXT(section << keys) {
    const auto s = open(make, section, keys);
    for (int i = 0; i < 5; ++i) step_of(*s);
    const auto before = outputs_of_run(*s);
    models::module_model mine = make();
    models::build(mine);
    const auto was = shapes_of(mine);
    const auto cleaned = check_ok(compression::redundancy_clean(mine, *s, picture_batch(3, 0, 0)));
    BOOST_TEST(!cleaned->modules.empty());
    check_near(outputs_of(mine), before, most);
    for (const auto& [name, shape] : shapes_of(mine))
      if (was.at(name) != shape) changed[name] = shape;
    BOOST_TEST((cleaned->elements < cleaned->elements_before) == !changed.empty());
  }
  return changed;
}

/// An attention module that computes its number of heads from the width of its weights.
struct apart_attention : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor t = x.flatten(1).narrow(1, 0, 36).reshape({x.size(0), 3, 12});
    const auto heads = [&](const at::Tensor& y) { return y.reshape({y.size(0), 3, -1, 4}).transpose(1, 2); };
    const at::Tensor mixed = at::softmax(heads(q(t)).matmul(heads(k(t)).transpose(2, 3)), -1).matmul(heads(v(t)));
    return out(mixed.transpose(1, 2).reshape({x.size(0), 3, -1})).mean(1);
  }
  torch::nn::Linear q = register_module("q", torch::nn::Linear(12, 16));
  torch::nn::Linear k = register_module("k", torch::nn::Linear(12, 16));
  torch::nn::Linear v = register_module("v", torch::nn::Linear(12, 16));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(16, picture_classes));
};
models::module_model attention_model() {
  return {{models::unit("attention", std::make_shared<apart_attention>())}, classes_loss()};
}

/// Returns a model with a unit between two linear layers.
factory with_between(auto make, int64_t inner = 12) {
  return [make, inner] {
    using models::unit;
    namespace nn = torch::nn;
    return models::module_model{{unit("flatten", [](const at::Tensor& x) { return x.flatten(1); }),
                                 unit("first", nn::Linear(picture_side * picture_side, inner)), unit("between", make()),
                                 unit("second", nn::Linear(inner, picture_classes))},
                                classes_loss()};
  };
}

std::string refusal(const factory& make, const std::string& section) {
  const auto ready = compression::init_compression({make, &picture_batch, &picture_batch}, compressing(section));
  return ready ? std::string("taken") : ready.error().text;
}

const factory pictures = [] { return picture_model(); };
const std::string heads =
    "head_pruning: {shared_parameters: {enabled: true, method: topk, num_heads: 4, "
    "schedule_offset: 1}, different_groups: {all: {params: {dense_ratio: 0.5}, modules: ";
const std::string filters = pruned("channel_pruning", "l1", "edges", "norm, corners");
const std::string rows = pruned("row_pruning", "l1", "first", "second");
const std::string learned_rows = pruned("row_pruning", "topk", "first", "second");
const std::string ranks = "parallel: {data: 2}\nzero_optimization: {stage: 3}\n";

}  // namespace

BOOST_AUTO_TEST_CASE(grids_and_masks_become_values_that_put_out_what_the_run_puts_out) {
  for (const std::string& section :
       {quantised("4", "first, second, head"), quantised("2", "second"), quantised("1", "head"),
        quantised("5", "edges, corners"), pruned("sparse_pruning", "l1", "'*'"),
        pruned("sparse_pruning", "topk", "first, corners"),
        pruned("sparse_pruning", "snip_momentum", "first, second", "",
               "schedule_offset: 1, schedule_offset_end: 3, block_pattern: 4x1"),
        pruned("row_pruning", "l1", "first"), pruned("row_pruning", "topk", "second"),
        pruned("channel_pruning", "l1", "edges"), pruned("channel_pruning", "topk", "corners")})
    BOOST_TEST_CONTEXT(section) BOOST_TEST(check_cleaned(pictures, section, ranks).empty());
}

BOOST_AUTO_TEST_CASE(rows_go_from_both_sides) {
  const shapes halved = {{"first.weight", {10, 16}}, {"first.bias", {10}}, {"second.weight", {12, 10}}};
  BOOST_TEST((check_cleaned(pictures, rows) == halved));
  BOOST_TEST((check_cleaned(pictures, learned_rows, ranks) == halved));
}

BOOST_AUTO_TEST_CASE(filters_go_with_their_norm_and_the_channels_of_the_next_convolution) {
  const shapes halved = {{"edges.weight", {4, 1, 3, 3}},
                         {"edges.bias", {4}},
                         {"norm.weight", {4}},
                         {"norm.bias", {4}},
                         {"corners.weight", {4, 4, 3, 3}}};
  BOOST_TEST((check_cleaned(pictures, filters, ranks) == halved));
  // Scores are learned for a convolution, its norm and the following layers, which are all in one unit.
  const factory one_unit = [] {
    struct whole : torch::nn::Module {
      at::Tensor forward(const at::Tensor& x) { return head(b(n(a(x)).relu()).relu().flatten(1)); }
      torch::nn::Conv2d a = register_module("a", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 3)));
      torch::nn::BatchNorm2d n =
          register_module("n", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(6).track_running_stats(false)));
      torch::nn::Conv2d b = register_module("b", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 4, 3)));
      torch::nn::Linear head = register_module("head", torch::nn::Linear(16, picture_classes));
    };
    return models::module_model{{models::unit("net", std::make_shared<whole>())}, classes_loss()};
  };
  const auto changed = check_cleaned(one_unit, pruned("channel_pruning", "topk", "'net\\.a'", "'net\\.n', 'net\\.b'"));
  BOOST_TEST((changed.at("net.b.weight") == std::vector<int64_t>{4, 3, 3, 3}));
  BOOST_TEST((changed.at("net.n.weight") == std::vector<int64_t>{3}));
}

BOOST_AUTO_TEST_CASE(other_layers_go_along_as_far_as_they_make_nothing_of_nothing) {
  namespace nn = torch::nn;
  const factory transposed = [] {
    auto m = picture_model();
    m.units[1] = models::unit("norm", nn::InstanceNorm2d(nn::InstanceNorm2dOptions(8).affine(true)));
    m.units[3] = models::unit("corners", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(8, 4, 3)));
    m.units[6] = models::unit("first", nn::Linear(144, 20));
    return m;
  };
  const auto channels = check_cleaned(transposed, filters);
  BOOST_TEST((channels.at("norm.bias") == std::vector<int64_t>{4}));
  BOOST_TEST((channels.at("corners.weight") == std::vector<int64_t>{4, 4, 3, 3}));
  const auto slopes = with_between([] { return nn::PReLU(nn::PReLUOptions().num_parameters(12)); });
  const auto less = check_cleaned(slopes, pruned("row_pruning", "l1", "first", "between, second"));
  BOOST_TEST((less.at("between.weight") == std::vector<int64_t>{6}));
  struct gated : nn::Module {
    at::Tensor forward(const at::Tensor& x) {
      return second(first(x.flatten(1)) * words(at::arange(x.size(0), at::kLong)));
    }
    nn::Linear first = register_module("first", nn::Linear(36, 12));
    nn::Embedding words = register_module("words", nn::Embedding(picture_rows, 12));
    nn::Linear second = register_module("second", nn::Linear(12, picture_classes));
  };
  const factory gates = [] {
    return models::module_model{{models::unit("net", std::make_shared<gated>())}, classes_loss()};
  };
  const auto narrow = check_cleaned(gates, pruned("row_pruning", "topk", "first", "words, second"));
  BOOST_TEST((narrow.at("net.words.weight") == std::vector<int64_t>{picture_rows, 6}));
}

BOOST_AUTO_TEST_CASE(a_norm_under_the_mask_of_its_convolution_changes_no_bit_wherever_states_lie) {
  const auto losses = [](const std::string& keys) {
    const auto s = open(pictures, filters + ", " + quantised("5", "corners"), "parallel: " + keys);
    std::vector<uint64_t> out;
    for (int i = 0; i < 4; ++i) out.push_back(std::bit_cast<uint64_t>(step_of(*s).loss));
    return out;
  };
  const auto wanted = losses("{data: 2}\n");
  for (const std::string keys : {"{data: 2}\nzero_optimization: {stage: 3, stage3_param_persistence_threshold: 0}\n",
                                 "{data: 2, pipeline: 2}\nzero_optimization: {stage: 1}\n",
                                 "{data: 2}\nactivation_checkpointing: {enabled: true}\n"})
    BOOST_TEST((losses(keys) == wanted), keys);
}

BOOST_AUTO_TEST_CASE(heads_go_from_queries_keys_values_and_the_projection) {
  const auto changed =
      check_cleaned(attention_model, heads + "['attention\\.out'], related_modules: [['attention\\.[qkv]']]}}}");
  for (const char* name : {"attention.q.weight", "attention.k.weight", "attention.v.weight"})
    BOOST_TEST_CONTEXT(name) BOOST_TEST((changed.at(name) == std::vector<int64_t>{8, 12}));
  BOOST_TEST((changed.at("attention.out.weight") == std::vector<int64_t>{picture_classes, 8}));
}

BOOST_AUTO_TEST_CASE(techniques_together_in_any_order_put_out_what_the_run_puts_out) {
  const auto begins = [](std::string section, const std::string& update) {
    const std::string one = "schedule_offset: 1";
    return section.replace(section.find(one), one.size(), "schedule_offset: " + update);
  };
  const std::vector<std::string> all = {quantised("4", "first, second, head"),
                                        pruned("sparse_pruning", "l1", "head, corners"), rows, filters};
  for (const auto& order : {std::vector<std::string>{"0", "1", "2", "3"},
                            {"3", "2", "1", "0"},
                            {"2", "3", "0", "1"},
                            {"1", "1", "1", "1"}}) {
    std::string section;
    for (size_t i = 0; i < all.size(); ++i) section += (i > 0 ? ", " : "") + begins(all[i], order[i]);
    const auto changed = check_cleaned(pictures, section, ranks);
    BOOST_TEST(changed.size() == 8U);
  }
  // Rows of both linear layers are pruned; the second one reads the output of the first.
  const auto both = check_cleaned(
      pictures, pruned("row_pruning", "l1", "'first|second'", "'second|head'") + ", " + quantised("8", "second"));
  BOOST_TEST((both.at("second.weight") == std::vector<int64_t>{6, 10}));
}

BOOST_AUTO_TEST_CASE(a_run_in_bf16_is_cleaned_by_the_scores_that_it_computes_with) {
  check_cleaned(pictures, learned_rows + ", " + quantised("4", "second"), ranks + "bf16: {enabled: true}\n", 3e-2);
}

BOOST_AUTO_TEST_CASE(sizes_that_modules_say_are_those_that_are_left) {
  const auto s = open(pictures, rows + ", " + filters);
  for (int i = 0; i < 3; ++i) step_of(*s);
  models::module_model mine = picture_model();
  const auto parameter = mine.units[0].module->parameters()[0];
  BOOST_TEST_REQUIRE(compression::redundancy_clean(mine, *s).has_value());
  const auto as = [&]<class Module>(size_t unit, std::type_identity<Module>) {
    return dynamic_cast<const Module&>(*mine.units[unit].module).options;
  };
  namespace nn = torch::nn;
  BOOST_TEST(as(0, std::type_identity<nn::Conv2dImpl>()).out_channels() == 4);
  BOOST_TEST(as(1, std::type_identity<nn::BatchNorm2dImpl>()).num_features() == 4);
  BOOST_TEST(as(3, std::type_identity<nn::Conv2dImpl>()).in_channels() == 4);
  BOOST_TEST(as(6, std::type_identity<nn::LinearImpl>()).out_features() == 10);
  BOOST_TEST(as(8, std::type_identity<nn::LinearImpl>()).in_features() == 10);
  // The parameter must stay the same object, because the host program's optimizers refer to it.
  BOOST_TEST(parameter.is_same(mine.units[0].module->parameters()[0]));
  BOOST_TEST(parameter.size(0) == 4);
  BOOST_TEST(parameter.requires_grad());
}

BOOST_AUTO_TEST_CASE(modules_that_share_a_weight_are_cleaned_when_both_are_compressed) {
  const factory twice = [] {
    using models::unit;
    const torch::nn::Linear shared(12, 12);
    return models::module_model{
        {unit("flatten", [](const at::Tensor& x) { return x.flatten(1); }), unit("in", torch::nn::Linear(36, 12)),
         unit("one", shared), unit("two", shared), unit("head", torch::nn::Linear(12, picture_classes))},
        classes_loss()};
  };
  check_cleaned(twice, pruned("sparse_pruning", "l1", "one, two") + ", " + quantised("4", "one, two"));
  const auto s = open(twice, pruned("sparse_pruning", "l1", "one"));
  for (int i = 0; i < 3; ++i) step_of(*s);
  check_failed(compression::redundancy_clean(twice(), *s), "got that of one, which two also reads");
}

BOOST_AUTO_TEST_CASE(a_cleaned_checkpoint_is_resumed_by_smaller_modules_with_their_moments) {
  const scratch_folder folder;
  const std::string section = rows + ", " + filters + ", " + quantised("4", "head");
  std::vector<float> before;
  {
    const auto s = open(pictures, section, ranks);
    for (int i = 0; i < 4; ++i) step_of(*s);
    before = outputs_of_run(*s);
    BOOST_TEST_REQUIRE(s->save({.root = folder / "run"}).has_value());
  }
  const auto cleaned = check_ok(
      compression::redundancy_clean(picture_model(), *compressing(section, ranks), folder / "run", folder / "clean"));
  BOOST_TEST(cleaned->elements < cleaned->elements_before);
  auto again = actors::session::open(
      {.config = compressing("", "parallel: {data: 2}\nzero_optimization: {stage: 2}\n"),
       .resume = folder / "clean",
       .model = actors::own_model({[] { return picture_model(4, 10); }, &picture_batch, &picture_batch})});
  BOOST_REQUIRE_MESSAGE(again.has_value(), (again ? "" : again.error().text));
  BOOST_TEST((*again)->steps_done() == 4U);
  check_near(outputs_of_run(**again), before, 1e-6);
  const auto moments = check_ok((*again)->states().get_full_optimizer_state("first.weight", "exp_avg"));
  BOOST_TEST(moments->size() == 10U * 16U);
  BOOST_TEST(std::ranges::any_of(*moments, [](float x) { return x != 0; }));
  BOOST_TEST(std::isfinite(step_of(**again).loss));
  check_failed(
      compression::redundancy_clean(picture_model(), *compressing(section, ranks), folder / "run", folder / "clean"),
      "wanted an empty folder or none");
}

BOOST_AUTO_TEST_CASE(layers_that_cannot_become_smaller_are_refused_before_the_run) {
  namespace nn = torch::nn;
  const auto layer_norm = with_between([] { return nn::LayerNorm(nn::LayerNormOptions({12})); });
  BOOST_TEST(has(refusal(layer_norm, pruned("row_pruning", "l1", "first", "between, second")),
                 "got between: a norm over several channels"));
  const auto straight = with_between([] { return nn::ReLU(); });
  BOOST_TEST(has(refusal(straight, pruned("row_pruning", "l1", "first", "nowhere")),
                 "own.yaml:6: compression_training.row_pruning.different_groups.all.related_modules: wanted a pattern "
                 "that matches a module related to first, got none for 'nowhere'"));
  BOOST_TEST(has(refusal(pictures, pruned("channel_pruning", "l1", "corners", "first")),
                 "wanted a module that takes the 4 rows of corners, got first, which takes 16"));
  BOOST_TEST(has(refusal(pictures, pruned("row_pruning", "l1", "'first|second'", "head")),
                 "wanted a pattern that matches as many modules as are pruned, got 1 for 'head' and 2"));
  BOOST_TEST(has(refusal(pictures, pruned("channel_pruning", "topk", "edges", "norm, corners")),
                 "wanted norms in the unit of edges, the only unit that reads its scores, got norm"));
  const factory grouped = [] {
    auto m = picture_model();
    m.units[3] = models::unit("corners", nn::Conv2d(nn::Conv2dOptions(8, 4, 3).groups(2)));
    return m;
  };
  BOOST_TEST(has(refusal(grouped, filters), "got corners with several"));
  const factory packed = [] {
    return models::module_model{{models::unit("flatten", [](const at::Tensor& x) { return x.flatten(1); }),
                                 models::unit("qkv", nn::Linear(36, 48)),
                                 models::unit("values", [](const at::Tensor& x) { return x.narrow(1, 32, 16); }),
                                 models::unit("out", nn::Linear(16, picture_classes))},
                                classes_loss()};
  };
  BOOST_TEST(has(refusal(packed, heads + "[out], related_modules: [[qkv]]}}}"),
                 "got qkv with 48 outputs, which cannot be assigned to heads"));
  struct attending : nn::Module {
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor t = x.flatten(1).narrow(1, 0, 32).reshape({x.size(0), 2, 16}).transpose(0, 1);
      return std::get<0>(attention(t, t, t)).mean(0);
    }
    nn::MultiheadAttention attention = register_module("attention", nn::MultiheadAttention(16, 4));
  };
  const factory torchs_own = [] {
    return models::module_model{
        {models::unit("block", std::make_shared<attending>()), models::unit("head", nn::Linear(16, picture_classes))},
        classes_loss()};
  };
  BOOST_TEST(has(refusal(torchs_own, heads + "[out_proj], related_modules: [['attention$']]}}}"),
                 "attention with a number of heads that depends on its width"));
}

BOOST_AUTO_TEST_CASE(what_would_compute_something_else_is_refused_and_leaves_the_masked_model) {
  // A sigmoid maps the zeros of pruned rows to 1/2, so these rows cannot be removed.
  const auto make = with_between([] { return torch::nn::Sigmoid(); });
  const auto s = open(make, pruned("row_pruning", "l1", "first", "second"));
  check_failed(compression::redundancy_clean(make(), *s),
               "wanted a run that has compressed something, got one after 0 updates");
  for (int i = 0; i < 3; ++i) step_of(*s);
  const auto before = outputs_of_run(*s);
  models::module_model mine = make();
  const auto was = shapes_of(mine);
  check_failed(compression::redundancy_clean(mine, *s, picture_batch(3, 0, 0)),
               "the model with what is left: wanted outputs as before");
  BOOST_TEST((shapes_of(mine) == was));
  check_near(outputs_of(mine), before, 1e-6);
  // The module's forward relies on the original sizes, so it cannot be made smaller.
  const factory counting = [] {
    auto m = picture_model();
    m.units[7] = models::unit("relu at last", [](const at::Tensor& x) { return x.reshape({-1, 20}).relu(); });
    return m;
  };
  const auto t = open(counting, rows);
  for (int i = 0; i < 3; ++i) step_of(*t);
  check_failed(compression::redundancy_clean(counting(), *t, picture_batch(3, 0, 0)), "cannot be multiplied");
}

BOOST_AUTO_TEST_SUITE_END()
