// Tests sharding of a host program's layers in place: the outputs and gradients of all ranks add up to those of the
// whole module, the original modules can be restored, and unsuitable policies are refused by name.
#include "models/inject/injection.hpp"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <boost/test/unit_test.hpp>

#include "models/host/prepared_modules.hpp"
#include "tests/check_ok.hpp"
#include "tests/host_blocks.hpp"

BOOST_AUTO_TEST_SUITE(injection)

using namespace troupe;
using namespace troupe::models;
using namespace troupe::tests;

namespace {

namespace nn = torch::nn;
using core::tp_style;

struct result {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // gradients of the parameters, followed by that of the input
};

result run(const nn::Module& module, const at::Tensor& x, double share, auto forward) {
  const at::Tensor input = x.detach().requires_grad_(x.is_floating_point());
  const at::Tensor y = forward(input) * share;
  std::vector<at::Tensor> of = module.parameters();
  for (at::Tensor& p : of) p.mutable_grad() = at::Tensor();
  (y * at::arange(y.numel(), y.options()).sin().view(y.sizes())).sum().backward();
  result out{y.detach(), {}};
  for (const at::Tensor& p : of) out.gradients.push_back(p.grad().clone());
  if (input.requires_grad()) out.gradients.push_back(input.grad());
  return out;
}

double off(const at::Tensor& got, const at::Tensor& wanted) {
  return (got - wanted).norm().item<double>() / wanted.norm().item<double>();
}

/// Compares the sums over 2 and over 3 tensor ranks with the whole module.
void check(const std::shared_ptr<nn::Module>& module, const injection_policy& policy, at::Tensor x, auto forward) {
  for (const auto& [type, most] : {std::pair{at::kFloat, 1e-5}, std::pair{at::kDouble, 1e-12}}) {
    module->to(type);
    if (x.is_floating_point()) x = x.to(type);
    const result whole = run(*module, x, 1, forward);
    for (const uint32_t degree : {2U, 3U}) BOOST_TEST_CONTEXT(type << " over " << degree) {
        auto made = check_ok(injection::make(module, "unit", policy, degree));
        result sum;
        for (uint32_t c = 0; c < degree; ++c) {
          made->sit(c);
          result each = run(*module, x, share_of(c, degree), forward);
          for (size_t i = 0; c > 0 && i < sum.gradients.size(); ++i) each.gradients[i] += sum.gradients[i];
          if (c > 0) each.output += sum.output;
          sum = std::move(each);
        }
        BOOST_TEST(off(sum.output, whole.output) <= most);
        for (size_t i = 0; i < whole.gradients.size(); ++i)
          BOOST_TEST(off(sum.gradients[i], whole.gradients[i]) <= most, "gradient " << i);
      }
  }
}

std::string refusal(const std::shared_ptr<nn::Module>& module, const injection_policy& policy, uint32_t degree = 2) {
  const auto made = injection::make(module, "unit", policy, degree);
  return made ? "accepted" : made.error().text;
}

injection_policy mlp_policy() {
  return {.rules = {{R"(unit\.up)", tp_style::column}, {R"(unit\.down)", tp_style::row}}};
}

const uint64_t width = block_width;

}  // namespace

BOOST_AUTO_TEST_CASE(summands_of_an_mlp_and_an_attention_add_up_forward_and_backward) {
  at::manual_seed(7);
  const at::Tensor x = at::randn({2, 5, block_width});
  const auto mlp = std::make_shared<host_mlp>();
  check(mlp, mlp_policy(), x, [&](const at::Tensor& t) { return mlp->forward(t); });
  const auto attention = std::make_shared<host_attention>();
  const injection_policy heads = {.rules = {{R"(unit\.qkv)", tp_style::column, {width, width, width}, block_heads},
                                            {R"(unit\.proj)", tp_style::row, {}, block_heads}}};
  check(attention, heads, x, [&](const at::Tensor& t) { return attention->forward(t); });
}

BOOST_AUTO_TEST_CASE(rows_of_a_vocabulary_give_whole_embeddings_and_whole_logits) {
  at::manual_seed(7);
  nn::Embedding words(50, 12);
  check(words.ptr(), {.rules = {{"unit", tp_style::vocabulary}}}, at::randint(50, {3, 7}, at::kLong),
        [&](const at::Tensor& t) { return words(t); });
  nn::Linear head(12, 50);
  check(head.ptr(), {.rules = {{"unit", tp_style::vocabulary}}}, at::randn({3, 12}),
        [&](const at::Tensor& t) { return head(t); });
}

BOOST_AUTO_TEST_CASE(a_cross_entropy_of_columns_is_that_of_whole_rows) {
  at::manual_seed(7);
  const vocabulary_cross_entropy loss{.ignore_index = 3};
  const at::Tensor scores = at::randn({4, 5, 11}, at::kDouble), target = at::randint(11, {4, 5}, at::kLong);
  const at::Tensor whole = scores.detach().requires_grad_(true);
  const at::Tensor wanted = loss(whole, target) * 3;
  wanted.backward();
  const std::vector<int64_t> first = {0, 4, 8}, widths = {4, 4, 3};
  std::vector<at::Tensor> own, known;
  for (size_t r = 0; r < 3; ++r) {
    own.push_back(scores.narrow(2, first[r], widths[r]).detach().requires_grad_(true));
    known.push_back(loss.statistics(own.back(), target, first[r], 11));
  }
  for (size_t r = 0; r < 3; ++r) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    const at::Tensor got = loss.joined(own[r], at::stack(known), target, first[r]) * 3;
    got.backward();
    BOOST_TEST(off(got, wanted.detach()) <= 1e-14);
    BOOST_TEST(off(own[r].grad(), whole.grad().narrow(2, first[r], widths[r])) <= 1e-14);
  }
  BOOST_CHECK_THROW((void)loss.statistics(own[0], target + 11, 0, 11), std::exception);
}

BOOST_AUTO_TEST_CASE(layers_are_found_in_every_container) {
  at::manual_seed(7);
  const at::Tensor x = at::randn({4, 12});
  const nn::Sequential in_order(nn::Linear(12, 20), nn::ReLU(), nn::Linear(20, 12));
  check(in_order.ptr(), {.rules = {{R"(unit\.0)", tp_style::column}, {R"(unit\.2)", tp_style::row}}}, x,
        [&](const at::Tensor& t) { return t + in_order.ptr()->forward(t); });
  nn::ModuleList listed(nn::Linear(12, 20), nn::Linear(20, 12));
  check(listed.ptr(), {.rules = {{R"(unit\.0)", tp_style::column}, {R"(unit\.1)", tp_style::row}}}, x,
        [&](const at::Tensor& t) {
          return listed->at<nn::LinearImpl>(1).forward(listed->at<nn::LinearImpl>(0).forward(t).tanh());
        });
  nn::ModuleDict named;
  named->update({{"up", nn::Linear(12, 20).ptr()}, {"down", nn::Linear(20, 12).ptr()}});
  check(named.ptr(), mlp_policy(), x, [&](const at::Tensor& t) {
    return named["down"]->as<nn::Linear>()->forward(named["up"]->as<nn::Linear>()->forward(t).relu());
  });
}

BOOST_AUTO_TEST_CASE(revert_gives_the_originals_back_and_weights_were_shared_all_along) {
  at::manual_seed(7);
  const auto mlp = std::make_shared<host_mlp>();
  const at::Tensor x = at::randn({2, 5, block_width}), before = mlp->forward(x);
  const at::Tensor weight = mlp->up->weight, bias = mlp->down->bias;
  auto made = models::injection::make(mlp, "unit", mlp_policy(), 2);
  BOOST_REQUIRE(made);
  made->sit(1);
  BOOST_TEST(mlp->up->weight.size(0) == block_inner / 2);
  BOOST_TEST(mlp->up->weight.is_alias_of(weight));
  BOOST_TEST(mlp->named_parameters()["up.weight"].is_same(weight));
  made->revert();
  BOOST_TEST(mlp->up->weight.is_same(weight));
  BOOST_TEST(mlp->down->bias.is_same(bias));
  BOOST_TEST(at::equal(mlp->forward(x), before));
}

BOOST_AUTO_TEST_CASE(what_was_cut_and_what_not_and_why_is_told) {
  const auto mlp = std::make_shared<host_mlp>();
  const auto made = models::injection::make(
      mlp, "mlp 0", {.rules = {{"mlp 0.up", tp_style::column}, {"mlp 0.down", tp_style::row}}}, 2);
  BOOST_REQUIRE(made);
  BOOST_TEST(text_of(made->layers()) ==
             "mlp 0.norm  whole (a norm reads whole rows)\n"
             "mlp 0.up    column 38: 19, 19 (rule 'mlp 0.up')\n"
             "mlp 0.down  row 38: 19, 19 (rule 'mlp 0.down')\n");
}

BOOST_AUTO_TEST_CASE(the_heuristic_and_names_of_row_layers_find_the_same_layers) {
  const auto attention = std::make_shared<host_attention>();
  const auto mlp = std::make_shared<host_mlp>();
  const auto styles = [](const std::shared_ptr<nn::Module>& m, const injection_policy& policy) {
    const auto made = check_ok(models::injection::make(m, "unit", policy, 2));
    std::string out;
    for (const auto& l : made->layers()) out += std::string(core::name_of(l.weight.style)) + " ";
    return out;
  };
  for (const auto& policy : {injection_policy{.rows = {"down", "unit.proj.weight"}}, {.heuristic = true}}) {
    BOOST_TEST(styles(attention, policy) == "replicated column row ");
    BOOST_TEST(styles(mlp, policy) == "replicated column row ");
  }
  BOOST_TEST(styles(nn::Linear(8, 8).ptr(), {.heuristic = true}) == "replicated ");
  at::manual_seed(7);
  const at::Tensor x = at::randn({2, 5, block_width});
  check(attention, {.rows = {"proj"}}, x, [&](const at::Tensor& t) { return attention->forward(t); });
  check(mlp, {.heuristic = true}, x, [&](const at::Tensor& t) { return mlp->forward(t); });
}

BOOST_AUTO_TEST_CASE(names_of_row_layers_are_whole_words_between_points) {
  BOOST_TEST(names_layer("attention.proj", "block 0.attention.proj"));
  BOOST_TEST(names_layer("proj.weight", "proj"));
  for (const char* other : {"block.down_proj", "proj.in", "proj.weight.proj2"})
    BOOST_TEST(!names_layer("proj", other), other);
  BOOST_TEST(!names_layer("", "proj"));
}

BOOST_AUTO_TEST_CASE(policies_that_do_not_fit_are_refused_by_name) {
  const auto mlp = std::make_shared<host_mlp>();
  BOOST_TEST(has(refusal(mlp, {.rules = {{R"(unit\.up)", tp_style::column}}}),
                 "wanted a row layer to match the column 'unit.up' in unit 'unit', got none"));
  BOOST_TEST(has(refusal(mlp, {.rules = {{R"(unit\.(up)", tp_style::column}}}), "wanted an RE2 pattern"));
  auto policy = mlp_policy();
  policy.rules[0].parts = {30, 9};
  BOOST_TEST(has(refusal(mlp, policy), "'unit.up': wanted parts that sum to the 38 outputs"));
  policy.rules[0].parts = {};
  policy.rules[0].heads = 4;
  BOOST_TEST(has(refusal(mlp, policy), "'unit.up': wanted heads that divide 38 elements"));
  BOOST_TEST(has(refusal(mlp, mlp_policy(), 39), "wanted an element for each of 39 ranks, got 38"));
  policy = mlp_policy();
  policy.strict = true;
  BOOST_TEST(refusal(mlp, policy) == "accepted");
  policy.rules[1].pattern = R"(unit\.other)";
  BOOST_TEST(has(refusal(mlp, policy), "got none for 'unit.down'"));
}

namespace {

std::string refused_model(const injection_policy& policy, const module_factory& make, uint32_t degree = 2) {
  const host_batch batch{at::randint(block_vocabulary, {2, 6}, at::kLong),
                         at::randint(block_vocabulary, {2, 6}, at::kLong)};
  const auto made =
      prepared_modules::make([&] { return inject(make(), policy); }, degree, core::dtype::f32, 7, batch, {}, degree);
  return made ? "accepted" : made.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_bias_of_separate_keys_whose_gradient_is_only_rounding_is_no_difference) {
  struct separate_attention : nn::Module {
    at::Tensor forward(const at::Tensor& x) {
      const auto heads = [&](nn::Linear& l) {
        return l->forward(x).reshape({x.size(0), x.size(1), -1, block_width / block_heads}).transpose(1, 2);
      };
      const at::Tensor y = at::scaled_dot_product_attention(heads(q), heads(k), heads(v), {}, 0.0, true);
      return x + o->forward(y.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
    }
    nn::Linear q = register_module("q", nn::Linear(block_width, block_width));
    nn::Linear k = register_module("k", nn::Linear(block_width, block_width));
    nn::Linear v = register_module("v", nn::Linear(block_width, block_width));
    nn::Linear o = register_module("o", nn::Linear(block_width, block_width));
  };
  auto policy = block_policy();
  policy.rules.push_back({R"(separate\.[qkv])", tp_style::column, {}, block_heads});
  policy.rules.push_back({R"(separate\.o)", tp_style::row, {}, block_heads});
  const auto make = [] {
    auto out = host_blocks();
    out.units.insert(out.units.begin() + 1, unit("separate", std::make_shared<separate_attention>()));
    return out;
  };
  BOOST_TEST(refused_model(policy, make) == "accepted");
  BOOST_TEST(refused_model(policy, make, 3) == "accepted");
}

BOOST_AUTO_TEST_CASE(a_probe_batch_finds_a_wrong_policy_and_names_the_unit) {
  const auto blocks = [] { return host_blocks(); };
  BOOST_TEST(refused_model(block_policy(), blocks) == "accepted");
  BOOST_TEST(refused_model(block_policy(), blocks, 3) == "accepted");
  auto policy = block_policy();
  // Queries, keys and values are not split separately: shapes are valid, but values are wrong.
  policy.rules[1].parts = {};
  const std::string text = refused_model(policy, blocks);
  BOOST_TEST(has(text, "unit 'attention 0', cut over 2 ranks"), text);
  BOOST_TEST(has(text, "wanted an output as without the cut"), text);
  policy = block_policy();
  std::swap(policy.rules[3].style, policy.rules[4].style);  // makes a row-parallel layer precede a column-parallel one
  BOOST_TEST(has(refused_model(policy, blocks), "unit 'mlp 0', cut over 2 ranks"));
  const auto dropped = [] {  // a rank drops other elements than the unsharded module does
    auto out = host_blocks();
    const auto mlp = std::make_shared<host_mlp>();
    out.units[2] = unit("mlp 0", mlp, [](host_mlp& m, const at::Tensor& x) {
      return x + m.down(at::dropout(m.up(m.norm(x)), 0.5, /*train=*/true));
    });
    return out;
  };
  BOOST_TEST(
      has(refused_model(block_policy(), dropped), "random numbers must not be drawn between column and row layers"));
  const auto squared = [] {  // the unit's output is not linear in the partial sums
    auto out = host_blocks();
    const auto mlp = std::make_shared<host_mlp>();
    out.units[2] = unit("mlp 0", mlp, [](host_mlp& m, const at::Tensor& x) { return m.forward(x).square(); });
    return out;
  };
  BOOST_TEST(has(refused_model(block_policy(), squared), "unit 'mlp 0', cut over 2 ranks: wanted an output"));
}

namespace {

/// Returns the result of the heuristic for a unit that `make` builds: styles of its linear layers, or the refusal.
std::string found(const std::function<module_unit()>& make, const injection_policy& policy = {.heuristic = true}) {
  const host_batch batch{at::randint(block_vocabulary, {2, 6}, at::kLong),
                         at::randint(block_vocabulary, {2, 6}, at::kLong)};
  const auto model = [&] {
    auto out = host_blocks();  // units besides the tested one are sharded as well
    out.units.insert(out.units.begin() + 3, make());
    return inject(std::move(out), policy);
  };
  const auto made = prepared_modules::make(model, 2, core::dtype::f32, 7, batch, {}, 2);
  if (!made) return made.error().text;
  std::string out;
  for (const auto& l : (*made)->layers())
    if (l.name.starts_with("new") && !has(l.why, "a norm"))
      out += std::string(core::name_of(l.weight.style)) + (l.weight.parts.size() > 1 ? "s " : " ");
  return out;
}

struct whole_block : nn::Module {  // contains attention and MLP in one unit
  at::Tensor forward(const at::Tensor& x) { return mlp->forward(attention->forward(x)); }
  std::shared_ptr<host_attention> attention = register_module("attention", std::make_shared<host_attention>());
  std::shared_ptr<host_mlp> mlp = register_module("mlp", std::make_shared<host_mlp>());
};

/// Returns a unit of a norm and two linear layers; the first layer's output is `packed` times as wide as the input of
/// the second.
module_unit packed_unit(int64_t packed, std::function<at::Tensor(const at::Tensor&)> middle) {
  const nn::Sequential layers(nn::LayerNorm(nn::LayerNormOptions({block_width})), nn::Linear(block_width, packed * 24),
                              nn::Linear(24, block_width));
  return unit("new", layers, [middle](nn::SequentialImpl& s, const at::Tensor& x) {
    return x + s[2]->as<nn::Linear>()->forward(
                   middle(s[1]->as<nn::Linear>()->forward(s[0]->as<nn::LayerNorm>()->forward(x))));
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_probe_finds_how_columns_are_packed_and_which_rows_are_cut) {
  BOOST_TEST(found([] { return unit("new", std::make_shared<host_attention>()); }) == "columns row ");
  const auto gated = [] {
    return packed_unit(2, [](const at::Tensor& t) {
      const auto parts = t.chunk(2, -1);
      return at::silu(parts[0]) * parts[1];
    });
  };
  BOOST_TEST(found(gated) == "columns row ");
  const auto interleaved = [] {  // the query, key and value of each head are adjacent
    return packed_unit(3, [](const at::Tensor& t) {
      const at::Tensor each = t.reshape({t.size(0), t.size(1), -1, 3, 4});
      return (each.select(3, 0).tanh() * each.select(3, 1) + each.select(3, 2)).flatten(2);
    });
  };
  BOOST_TEST(found(interleaved) == "column row ");
  BOOST_TEST(found([] { return unit("new", std::make_shared<whole_block>()); }) == "replicated replicated column row ");
  const auto squared = [] {
    return unit("new", std::make_shared<host_mlp>(),
                [](host_mlp& m, const at::Tensor& x) { return m.forward(x).square(); });
  };
  BOOST_TEST(found(squared) == "replicated replicated ");
  const std::string refused = found(squared, {.rows = {"down", "proj"}});
  BOOST_TEST(has(refused, "unit 'new', cut over 2 ranks: wanted an output"), refused);
  const std::string both =
      found([] { return unit("new", std::make_shared<whole_block>()); }, {.rows = {"down", "proj"}});
  BOOST_TEST(has(both, "such as attention and MLP, a separate unit"), both);
  const std::string missing = found(gated, {.rows = {"down", "gate"}});
  BOOST_TEST(has(missing, "wanted a linear layer whose name ends in 'gate', a row layer, found none"), missing);
}

BOOST_AUTO_TEST_CASE(a_ranks_table_has_the_widest_shares_and_what_is_exchanged_behind_units) {
  const host_batch batch{at::randint(block_vocabulary, {2, 6}, at::kLong),
                         at::randint(block_vocabulary, {2, 6}, at::kLong)};
  const auto of = [&](const loss_function& loss) {
    const auto make = [loss] {
      auto model = host_blocks();
      model.loss = loss;
      return inject(std::move(model), block_policy());
    };
    auto made = check_ok(prepared_modules::make(make, 3, core::dtype::f32, 7, batch, {}, 3));
    return (*made)->own_table();
  };
  const auto t = of(vocabulary_cross_entropy()), whole_rows = of(host_blocks().loss);
  const uint64_t hidden = 2 * 6 * block_width * sizeof(float);
  const auto& parameters = t.parameters;
  BOOST_TEST(parameters[0].name == "words.weight");
  BOOST_TEST((parameters[0].shape == std::vector<int64_t>{17, block_width}));
  BOOST_TEST((parameters[0].share == core::tensor_share::cut));
  BOOST_TEST((t.units[0].segments[0].output == core::segment_exchange{core::exchange_op::sum, hidden}));
  BOOST_TEST((t.units[0].segments[0].input_gradient == core::segment_exchange{}));
  const auto& mlp = t.units[2];
  BOOST_TEST(mlp.name == "mlp 0");
  BOOST_TEST((mlp.segments[0].input_gradient == core::segment_exchange{core::exchange_op::sum, hidden}));
  BOOST_TEST((parameters[mlp.parameters[0]].share == core::tensor_share::summed));  // weight of the norm before the MLP
  BOOST_TEST((parameters[mlp.parameters[2]].shape == std::vector<int64_t>{13, block_width}));
  BOOST_TEST((parameters[mlp.parameters[5]].share == core::tensor_share::summed));  // bias of the row-parallel layer
  const auto& norm = t.units[5];
  BOOST_TEST((parameters[norm.parameters[0]].share == core::tensor_share::alike));
  BOOST_TEST((norm.segments[0].output == core::segment_exchange{}));
  BOOST_TEST_REQUIRE(t.units.back().segments.size() == 2U);
  BOOST_TEST((t.units.back().segments[0].output ==
              core::segment_exchange{core::exchange_op::gather, 2 * 6 * 3 * sizeof(float)}));
  BOOST_TEST((whole_rows.units.back().segments[0].output ==
              core::segment_exchange{core::exchange_op::sum, 2 * 6 * block_vocabulary * sizeof(float)}));
}

BOOST_AUTO_TEST_CASE(a_policy_that_matches_nothing_or_half_of_what_is_shared_is_refused_by_name) {
  const auto blocks = [] { return host_blocks(); };
  auto policy = block_policy();
  policy.rules.push_back({"gate", tp_style::column});
  BOOST_TEST(has(refused_model(policy, blocks), "wanted a layer that 'gate' matches"));
  BOOST_TEST(has(refused_model({}, blocks), "wanted a layer to cut over 2 ranks, found none"));
  const auto tied = [] {
    auto out = host_blocks();
    out.units.back() = unit("head", std::dynamic_pointer_cast<nn::EmbeddingImpl>(out.units[0].module),
                            [](nn::EmbeddingImpl& m, const at::Tensor& x) { return x.matmul(m.weight.t()); });
    return out;
  };
  BOOST_TEST(refused_model(block_policy(), tied) == "accepted");
  policy = block_policy();
  policy.rules[0].pattern = "words";
  BOOST_TEST(has(refused_model(policy, tied), "'words.weight' is cut in unit 'words' and whole in unit 'head'"));
  check_failed(prepared_modules::make(blocks, 2, core::dtype::f32, 7,
                                      {at::zeros({2, 6}, at::kLong), at::zeros({2, 6}, at::kLong)}, {}, 2),
               "declares no tensor cut (models::inject)");
}

BOOST_AUTO_TEST_SUITE_END()
