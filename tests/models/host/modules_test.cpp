// Tests a host program's torch modules as units: their table, the dry run, gradients, buffers, random numbers and
// refusals.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

#include <boost/test/unit_test.hpp>

#include <array>

#include "models/host/module_table.hpp"
#include "models/host/prepared_modules.hpp"
#include "models/host/random_turn.hpp"
#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(modules)

namespace {

namespace nn = torch::nn;

at::Tensor squared_error(const at::Tensor& y, const at::Tensor& target) { return nn::functional::mse_loss(y, target); }
at::Tensor relu(const at::Tensor& x) { return x.relu(); }

host_batch images() { return {at::randn({4, 3, 8, 8}), at::randn({4, 5})}; }

module_model convolutional() {
  const nn::Conv2d conv(nn::Conv2dOptions(3, 6, 3).padding(1).groups(3).stride(2));
  const nn::Linear square(96, 96);
  return {{unit("conv", conv), unit("norm", nn::BatchNorm2d(6)),
           unit("flat", [](const at::Tensor& x) { return x.flatten(1); }), unit("square", square), unit("relu", relu),
           unit("drop", nn::Dropout(0.5)), unit("square again", square), unit("out", nn::Linear(96, 5))},
          squared_error};
}

std::unique_ptr<prepared_modules> prepared(const module_factory& make, const host_batch& first,
                                           core::dtype type = core::dtype::f32) {
  return take(prepared_modules::make(make, 1, type, 7, first));
}

std::string refusal(const module_factory& make, const host_batch& first, uint32_t ranks = 1) {
  const auto made = prepared_modules::make(make, ranks, core::dtype::f32, 7, first);
  return made ? "accepted" : made.error().text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// An instance of the modules whose parameters are bound to separate memory.
struct bound_modules {
  bound_modules(const module_factory& make, const host_batch& first)
      : from(prepared(make, first)),
        weights(first_weights()),
        model(models::take(from->take(0))),
        binding(model->table(), core::dtype::f32, model->own_parameters()) {
    for (uint32_t q = 0; q < weights.size(); ++q) binding.bind(q, weights[q].mutable_data_ptr());
  }

  [[nodiscard]] std::vector<at::Tensor> first_weights() const {
    std::vector<at::Tensor> out;
    for (uint32_t q = 0; q < from->table().parameters.size(); ++q) {
      BOOST_TEST_INFO_SCOPE("q " << q);
      const auto& info = from->table().parameters[q];
      out.push_back(at::empty(info.shape, at::kFloat));
      BOOST_REQUIRE(from->read(q, 0, {out.back().mutable_data_ptr<float>(), info.numel()}));
    }
    return out;
  }

  std::vector<std::unique_ptr<segment_run>> forward(const micro_batch& batch) {
    std::vector<std::unique_ptr<segment_run>> runs;
    at::Tensor hidden;
    for (uint32_t u = 0; u < model->table().units.size(); ++u) {
      runs.push_back(model->forward(u, 0, batch, hidden, binding));
      hidden = runs.back()->output();
    }
    return runs;
  }

  std::unique_ptr<prepared_modules> from;
  std::vector<at::Tensor> weights;
  std::unique_ptr<language_model> model;
  parameter_binding binding;
};

micro_batch batch_of(const host_batch& tensors, uint64_t step = 0) {
  micro_batch b;
  b.seed = 7;
  b.step = step;
  b.host = &tensors;
  return b;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_table_names_parameters_by_unit_and_knows_shared_ones) {
  const auto p = prepared(convolutional, images());
  const auto& t = p->table();
  BOOST_TEST_REQUIRE(t.units.size() == 8U);
  BOOST_TEST(t.parameters[0].name == "conv.weight");
  BOOST_TEST((t.parameters[0].shape == std::vector<int64_t>{6, 1, 3, 3}));
  BOOST_TEST(t.units[3].parameters == t.units[6].parameters, boost::test_tools::per_element());
  BOOST_TEST(t.units[4].parameters.empty());
  BOOST_TEST(t.numel() == uint64_t{6 * 9 + 6 + 2 * 6 + 96 * 96 + 96 + 96 * 5 + 5});
  BOOST_TEST(t.parameters[0].decay);
  BOOST_TEST(!t.parameters[1].decay);
}

BOOST_AUTO_TEST_CASE(layers_have_their_modules_kinds_and_widths) {
  const auto p = prepared(convolutional, images());
  const auto& layers = p->table().layers;
  const auto text_of = [](const core::layer_info& l) {
    return fmt::format("{}: {} {} to {}", l.name, name_of(l.kind), l.in, l.out);
  };
  std::vector<std::string> got;
  for (const auto& l : layers) got.push_back(text_of(l));
  const std::vector<std::string> wanted = {"conv: convolution 3 to 6", "norm: norm 6 to 6", "square: linear 96 to 96",
                                           "square again: linear 96 to 96", "out: linear 96 to 5"};
  BOOST_TEST(got == wanted, boost::test_tools::per_element());
  BOOST_TEST(layers[2].parameters == layers[3].parameters, boost::test_tools::per_element());
  BOOST_TEST(layers[3].unit == 6U);
  BOOST_TEST((layers[4].layout == core::weight_layout::out_in));
  BOOST_TEST(p->table().parameters[*layers[4].bias].name == "out.bias");
  BOOST_TEST(layers[4].segment == 0U);
}

BOOST_AUTO_TEST_CASE(modules_inside_a_unit_are_layers_and_one_of_an_unknown_type_still_names_its_parameters) {
  struct scale : nn::Module {
    scale() {
      weight = register_parameter("weight", at::ones({12}));
      shift = register_parameter("shift", at::zeros({12}));
    }
    at::Tensor weight, shift;
  };
  struct block : nn::Module {
    block()
        : words(register_module("words", nn::Embedding(20, 12))),
          attention(register_module("attention", nn::MultiheadAttention(12, 3))),
          act(register_module("act", nn::GELU())),
          drop(register_module("drop", nn::Dropout(0.1))),
          norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({12}).elementwise_affine(false)))),
          own(register_module("own", std::make_shared<scale>())) {
      register_module("own again", own);
    }
    at::Tensor forward(const at::Tensor& tokens) {
      const at::Tensor x = words(tokens);
      const at::Tensor mixed = std::get<0>(attention(x, x, x));
      return norm(drop(act(mixed))) * own->weight + own->shift;
    }
    nn::Embedding words;
    nn::MultiheadAttention attention;
    nn::GELU act;
    nn::Dropout drop;
    nn::LayerNorm norm;
    std::shared_ptr<scale> own;
  };
  const auto make = [] { return module_model{{unit("block", std::make_shared<block>())}, squared_error}; };
  const auto p = prepared(make, {at::randint(20, {4, 2}), at::randn({4, 2, 12})});
  const auto& table = p->table();
  std::vector<std::string> names;
  std::vector<uint32_t> parameters;
  for (const auto& l : table.layers) {
    names.push_back(l.name + ": " + std::string(name_of(l.kind)));
    parameters.insert(parameters.end(), l.parameters.begin(), l.parameters.end());
  }
  const std::vector<std::string> wanted = {
      "block.words: embedding", "block.attention: attention", "block.attention.out_proj: linear",
      "block.act: activation",  "block.norm: norm",           "block.own: other"};
  BOOST_TEST_REQUIRE(names == wanted, boost::test_tools::per_element());
  BOOST_TEST(parameters == table.units[0].segments[0].parameters, boost::test_tools::per_element());
  const auto &attention = table.layers[1], &out = table.layers[2], &norm = table.layers[4], &own = table.layers[5];
  BOOST_TEST((table.layers[0].layout == core::weight_layout::in_out));
  BOOST_TEST(attention.heads == 3U);
  BOOST_TEST(attention.parts.size() == 3U);
  BOOST_TEST((table.parameters[*attention.weight].shape == std::vector<int64_t>{36, 12}));
  BOOST_TEST(attention.out == 36U);
  BOOST_TEST(out.heads == 3U);
  BOOST_TEST(norm.in == 12U);
  BOOST_TEST(!norm.weight.has_value());
  BOOST_TEST(table.parameters[*own.weight].name == "block.own.weight");
  BOOST_TEST(table.parameters[own.parameters.at(1)].name == "block.own.shift");
  BOOST_TEST(!own.bias.has_value());
}

BOOST_AUTO_TEST_CASE(both_parts_of_a_backward_give_the_bits_of_one) {
  const auto first = images();
  bound_modules m(convolutional, first);
  const auto& table = m.model->table();
  BOOST_TEST(table.units[3].segments[0].weight_bytes == uint64_t{4 * (96 * 96 + 96)});
  BOOST_TEST(table.units[4].segments[0].weight_bytes == 0U);
  tensor_sink wanted(table, core::dtype::f32), got(table, core::dtype::f32);
  for (tensor_sink* sink : {&wanted, &got}) {
    auto runs = m.forward(batch_of(first));
    at::Tensor gradient = at::ones({});
    for (auto run = runs.rbegin(); run != runs.rend(); ++run)
      gradient = sink == &wanted ? (*run)->backward(gradient, *sink) : (*run)->backward_input(gradient);
    for (auto run = runs.rbegin(); sink == &got && run != runs.rend(); ++run) {
      BOOST_TEST(!(*run)->output().defined());
      (*run)->backward_weight(*sink);
      BOOST_CHECK_THROW((*run)->backward_weight(*sink), c10::Error);
    }
  }
  for (size_t q = 0; q < wanted.gradients.size(); ++q)
    BOOST_TEST(got.gradients[q].equal(wanted.gradients[q]), table.parameters[q].name);
}

BOOST_AUTO_TEST_CASE(the_dry_run_agrees_with_counts_by_hand) {
  const auto p = prepared(convolutional, images());
  const auto flops = [&](uint32_t u) { return p->table().units[u].segments[0].forward_flops; };
  // Number of outputs, times the 3 x 3 window over the single input channel of a group.
  BOOST_TEST(flops(0) == 2.0 * (4 * 6 * 4 * 4) * 9);
  BOOST_TEST(flops(3) == 2.0 * 4 * 96 * 96);
  BOOST_TEST(flops(4) == 0.0);
  // A linear unit allocates only its output; its input and its weight exist before it runs.
  BOOST_TEST(p->table().units[3].segments[0].saved_bytes == uint64_t{4 * 96 * 4});

  const auto memory = [] {
    return module_model{{unit("memory", nn::GRU(nn::GRUOptions(10, 12)),
                              [](auto& gru, const at::Tensor& x) { return std::get<0>(gru.forward(x)); })},
                        squared_error};
  };
  const auto g = prepared(memory, {at::randn({6, 2, 10}), at::randn({6, 2, 12})});
  BOOST_TEST(g->table().units[0].segments[0].forward_flops == 2.0 * 6 * 2 * 3 * 12 * (10 + 12));
  const auto given = [&] {
    auto m = memory();
    m.units[0].forward_flops = 5;
    return m;
  };
  BOOST_TEST(
      prepared(given, {at::randn({6, 2, 10}), at::randn({6, 2, 12})})->table().units[0].segments[0].forward_flops ==
      5.0);
}

BOOST_AUTO_TEST_CASE(gradients_are_autograds_also_of_released_and_shared_parameters) {
  const host_batch first = images();
  bound_modules m(convolutional, first);
  const auto batch = batch_of(first);
  tensor_sink sink(m.model->table(), core::dtype::f32);
  auto runs = m.forward(batch);
  std::vector<at::Tensor> elsewhere;
  for (uint32_t q = 0; q < m.weights.size(); ++q) {
    m.binding.release(q);
    elsewhere.push_back(m.weights[q].clone());
    m.weights[q].fill_(std::nan(""));
    m.binding.bind(q, elsewhere[q].mutable_data_ptr());
  }
  at::Tensor gradient = at::full({}, 1.0);
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) gradient = (*run)->backward(gradient, sink);
  BOOST_TEST(!gradient.defined());  // the first unit's input needs no gradient

  // The reference is LibTorch's autograd over the whole model at once, with the same random seeds for each unit.
  const auto alone = convolutional();
  std::vector<at::Tensor> leaves;
  for (const auto& u : alone.units)
    if (u.module != nullptr)
      for (const auto& p : u.module->parameters())
        if (std::none_of(leaves.begin(), leaves.end(), [&](const auto& t) { return t.is_same(p); }))
          leaves.push_back(p);
  BOOST_TEST_REQUIRE(leaves.size() == elsewhere.size());
  {
    const at::NoGradGuard no_grad;
    for (size_t q = 0; q < leaves.size(); ++q) leaves[q].copy_(elsewhere[q]);
  }
  at::Tensor x = first.input;
  for (uint32_t u = 0; u < alone.units.size(); ++u) {
    const random_turn turn({7, 0, 0, 0, u});
    x = alone.units[u].forward(x);
  }
  const at::Tensor loss = alone.loss(x, first.target);
  BOOST_TEST(runs.back()->output().item<float>() == loss.item<float>());
  loss.backward();
  for (size_t q = 0; q < leaves.size(); ++q)
    BOOST_TEST(relative_difference(sink.gradients[q], leaves[q].grad()) <= 1e-6, m.model->table().parameters[q].name);
}

BOOST_AUTO_TEST_CASE(recomputing_a_micro_batch_gives_the_same_bits_and_changes_no_buffer) {
  const host_batch first = images();
  std::vector<at::Tensor> buffers;
  bound_modules m(
      [&] {
        auto made = convolutional();
        for (const auto& b : made.units[1].module->buffers()) buffers.push_back(b);
        return made;
      },
      first);
  const at::Tensor running = buffers[0].clone(), zero = at::zeros_like(running);
  BOOST_TEST(running.equal(zero));  // the dry run has not changed the buffers
  const auto once = m.forward(batch_of(first));
  const at::Tensor after = buffers[0].clone();
  BOOST_TEST(!after.equal(zero));
  const auto again = m.forward(batch_of(first));
  BOOST_TEST(buffers[0].equal(after));
  for (size_t u = 0; u < once.size(); ++u) BOOST_TEST(once[u]->output().equal(again[u]->output()));
  const auto next = m.forward(batch_of(first, 1));
  BOOST_TEST(!buffers[0].equal(after));
  BOOST_TEST(!next[5]->output().equal(once[5]->output()));

  micro_batch evaluation = batch_of(first, 1);
  evaluation.training = false;
  const at::Tensor before = buffers[0].clone();
  const auto calm = m.forward(evaluation);
  BOOST_TEST(calm[5]->output().equal(calm[4]->output()));  // dropout is off in evaluation
  BOOST_TEST(buffers[0].equal(before));
}

BOOST_AUTO_TEST_CASE(unused_parameters_get_zero_and_rows_of_a_sparse_gradient_get_their_places) {
  struct half_used : nn::Module {
    half_used() : used(register_module("used", nn::Linear(4, 4))), idle(register_module("idle", nn::Linear(4, 4))) {}
    at::Tensor forward(const at::Tensor& x) { return used->forward(x); }
    nn::Linear used, idle;
  };
  const host_batch first = {at::full({2, 3}, 1, at::kLong), at::randn({2, 3, 4})};
  bound_modules m(
      [] {
        return module_model{{unit("words", nn::Embedding(nn::EmbeddingOptions(5, 4).sparse(true))),
                             unit("half", std::make_shared<half_used>())},
                            squared_error};
      },
      first);
  tensor_sink sink(m.model->table(), core::dtype::f32);
  auto runs = m.forward(batch_of(first));
  runs[0]->backward(runs[1]->backward(at::full({}, 1.0), sink), sink);
  for (uint32_t q = 0; q < sink.gradients.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    const auto& name = m.model->table().parameters[q].name;
    const bool idle = name.starts_with("half.idle");
    BOOST_TEST(sink.gradients[q].isfinite().all().item<bool>(), name);
    BOOST_TEST((sink.gradients[q].abs().sum().item<float>() == 0) == idle, name);
  }
  BOOST_TEST(sink.gradients[0].select(0, 0).abs().sum().item<float>() == 0.0F);
  BOOST_TEST(sink.gradients[0].select(0, 1).abs().sum().item<float>() > 0.0F);
}

BOOST_AUTO_TEST_CASE(a_module_that_the_host_put_into_evaluation_stays_there) {
  const host_batch first = images();
  bound_modules m(
      [] {
        auto made = convolutional();
        made.units[5].module->eval();
        return made;
      },
      first);
  for (const bool training : {true, false, true}) {
    BOOST_TEST_INFO_SCOPE("training " << training);
    micro_batch batch = batch_of(first);
    batch.training = training;
    const auto runs = m.forward(batch);
    BOOST_TEST(runs[5]->output().equal(runs[4]->output()));  // dropout is off, because the unit is in eval mode
    BOOST_TEST(!runs[1]->output().equal(runs[0]->output()));
  }
}

BOOST_AUTO_TEST_CASE(a_turn_leaves_torchs_generator_as_it_was) {
  at::manual_seed(5);
  const at::Tensor wanted = at::rand({3});
  at::manual_seed(5);
  {
    const random_turn turn({1, 2, 3, 4, 5});
    BOOST_TEST(!turn.drew());
    at::rand({10});
    BOOST_TEST(turn.drew());
  }
  BOOST_TEST(at::rand({3}).equal(wanted));
}

BOOST_AUTO_TEST_CASE(units_that_do_not_fit_are_named_with_their_shapes) {
  const auto narrow = [] {
    return module_model{{unit("wide", nn::Linear(8, 20)), unit("narrow", nn::Linear(16, 3))}, squared_error};
  };
  const std::string text = refusal(narrow, {at::randn({4, 8}), at::randn({4, 3})});
  BOOST_TEST(has(text, "unit 'narrow' failed for the output of unit 'wide', Float [4, 20]"), text);
  const std::string input = refusal(narrow, {at::randn({4, 9}), at::randn({4, 3})});
  BOOST_TEST(has(input, "unit 'wide' failed for the batch's input, Float [4, 9]"), input);
  const auto wrong_loss = [] {
    return module_model{{unit("only", nn::Linear(8, 3))}, [](const at::Tensor& y, const at::Tensor&) { return y; }};
  };
  const std::string loss = refusal(wrong_loss, {at::randn({4, 8}), at::randn({4, 3})});
  BOOST_TEST(has(loss, "wanted one number with a gradient as the loss"), loss);
  const auto broken = [] {
    return module_model{{unit("only", nn::Linear(8, 3)), unit("cut", [](const at::Tensor& x) { return x.detach(); })},
                        squared_error};
  };
  const std::string cut = refusal(broken, {at::randn({4, 8}), at::randn({4, 3})});
  BOOST_TEST(has(cut, "gradients to flow back through unit 'cut'"), cut);
}

BOOST_AUTO_TEST_CASE(invalid_models_and_factories_that_differ_by_rank_are_refused) {
  const host_batch first = {at::randn({4, 8}), at::randn({4, 3})};
  const auto only = [](module_unit u) { return module_model{{std::move(u)}, squared_error}; };
  const auto refused = [&](const module_factory& make, const std::string& part, uint32_t ranks = 1) {
    const std::string text = refusal(make, first, ranks);
    BOOST_TEST(has(text, part), text);
  };
  refused([] { return module_model{{}, squared_error}; }, "at least one unit");
  refused([&] { return module_model{{unit("a", nn::Linear(8, 3))}, nullptr}; }, "wanted a loss");
  refused([&] { return only(unit("relu", relu)); }, "wanted at least one parameter with requires_grad");
  refused([&] { return only({"empty", nn::Linear(8, 3).ptr(), nullptr, 0}); }, "unit 'empty' has no forward");
  refused([&] { return only(unit("", nn::Linear(8, 3))); }, "a unique name");
  refused([]() -> module_model { throw std::runtime_error("no such file"); }, "the factory failed: no such file");
  int calls = 0;
  refused([&] { return only(unit("a", nn::Linear(8, ++calls == 1 ? 3 : 4))); },
          "rank 1: wanted 'a.weight' [3, 8] as in the first call of the factory, got 'a.weight' [4, 8]", 2);
  const nn::Linear shared(8, 3);
  refused([&] { return only(unit("a", shared)); }, "separate modules for each rank", 2);
}

/// Returns the modules of `convolutional` as factories, so that each is built only on the ranks that compute it.
module_model convolutional_by_factories() {
  const auto square = shared("square", [] { return nn::Linear(96, 96); });
  return {
      {unit("conv", [] { return nn::Conv2d(nn::Conv2dOptions(3, 6, 3).padding(1).groups(3).stride(2)); }),
       unit("norm", [] { return nn::BatchNorm2d(6); }), unit("flat", [](const at::Tensor& x) { return x.flatten(1); }),
       unit("square", square), unit("relu", relu), unit("drop", [] { return nn::Dropout(0.5); }),
       unit("square again", square, [](nn::LinearImpl& l, const at::Tensor& x) { return l.forward(x).tanh(); }),
       unit("out", [] { return std::make_shared<nn::LinearImpl>(96, 5); })},
      squared_error};
}

BOOST_AUTO_TEST_CASE(units_with_factories_have_the_table_and_the_costs_of_units_with_modules) {
  const auto first = images();
  const auto made = prepared(convolutional, first), later = prepared(convolutional_by_factories, first);
  const auto &a = made->table(), &b = later->table();
  BOOST_TEST_REQUIRE(a.parameters.size() == b.parameters.size());
  for (size_t q = 0; q < a.parameters.size(); ++q) {
    BOOST_TEST_INFO_SCOPE("q " << q);
    BOOST_TEST(a.parameters[q].name == b.parameters[q].name);
    BOOST_TEST(a.parameters[q].shape == b.parameters[q].shape, boost::test_tools::per_element());
  }
  for (size_t u = 0; u < a.units.size(); ++u) {
    BOOST_TEST_INFO_SCOPE("u " << u);
    BOOST_TEST(a.units[u].parameters == b.units[u].parameters, boost::test_tools::per_element());
    BOOST_TEST(a.units[u].input_bytes == b.units[u].input_bytes);
    BOOST_TEST(a.units[u].segments[0].forward_flops == b.units[u].segments[0].forward_flops);
  }
  BOOST_TEST(a.layers.size() == b.layers.size());
}

BOOST_AUTO_TEST_CASE(units_with_factories_compute_what_the_built_model_does) {
  const auto first = images();
  bound_modules m(convolutional_by_factories, first);
  auto alone = convolutional_by_factories();
  build(alone);
  const auto leaves = parameters_of(alone, m.model->table());
  BOOST_TEST_REQUIRE(leaves.size() == m.weights.size());
  const at::NoGradGuard no_grad;
  for (size_t q = 0; q < leaves.size(); ++q) leaves[q].copy_(m.weights[q]);
  at::Tensor x = first.input;
  for (uint32_t u = 0; u < alone.units.size(); ++u) {
    const random_turn turn({7, 0, 0, 0, u});
    x = alone.units[u].forward(x);
  }
  BOOST_TEST(m.forward(batch_of(first)).back()->output().item<float>() == alone.loss(x, first.target).item<float>());
}

BOOST_AUTO_TEST_CASE(a_unit_is_built_for_the_dry_run_and_once_on_each_rank_that_computes_it) {
  struct counted : nn::Module {
    explicit counted(std::array<int, 3>& counts) : counts_(counts), layer_(register_module("layer", nn::Linear(8, 8))) {
      ++counts_[0];
      counts_[2] = std::max(counts_[2], ++counts_[1]);
    }
    ~counted() override { --counts_[1]; }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    at::Tensor forward(const at::Tensor& x) { return layer_(x); }

   private:
    std::array<int, 3>& counts_;  // instances built, instances alive, largest number alive
    nn::Linear layer_;
  };
  std::array<int, 3> all = {};
  std::array<int, 3> made = {};  // instances built, by module
  const auto make = [&] {
    const auto factory = [&](size_t u) {
      return [&all, &made, u] {
        ++made[u];
        return std::make_shared<counted>(all);
      };
    };
    const auto tied = shared("tied", factory(1));
    return module_model{{unit("a", factory(0)), unit("b", tied), unit("c", factory(2)), unit("d", tied)},
                        squared_error};
  };
  const host_batch first = {at::randn({4, 8}), at::randn({4, 8})};
  const auto p = take(prepared_modules::make(make, 2, core::dtype::f32, 7, first));
  BOOST_TEST((made == std::array{1, 1, 1}));
  BOOST_TEST(all[1] == 0);  // all instances of the dry run are destroyed
  BOOST_TEST(all[2] == 2);  // the shared module and one other
  p->keep(0, {true, true, false, false});
  p->keep(1, {false, false, true, true});
  std::vector<float> of_first(64), of_second(64);
  BOOST_REQUIRE(p->read(0, 0, of_first, 0));
  BOOST_REQUIRE(p->read(2, 0, of_first, 0));
  BOOST_REQUIRE(p->read(4, 0, of_second, 1));
  BOOST_REQUIRE(p->read(2, 0, of_second, 1));
  // Both ranks initialise the shared module equally.
  BOOST_TEST(of_first == of_second, boost::test_tools::per_element());
  BOOST_TEST((made == std::array{2, 3, 2}));
  const auto one = take(p->take(0)), other = take(p->take(1));
  BOOST_TEST((made == std::array{2, 3, 2}));
  BOOST_TEST(all[1] == 4);
  BOOST_TEST(!one->own_parameters()[4].defined());
  BOOST_TEST(!other->own_parameters()[0].defined());
  BOOST_TEST(other->own_parameters()[2].defined());
}

BOOST_AUTO_TEST_CASE(factories_that_fail_differ_or_share_other_types_are_refused) {
  const host_batch first = {at::randn({4, 8}), at::randn({4, 8})};
  const auto linear = [] { return nn::Linear(8, 8); };
  const auto other = [&](const module_factory& make) {
    const auto p = take(prepared_modules::make(make, 1, core::dtype::f32, 7, first));
    const auto got = p->take(0);
    return got ? "accepted" : got.error().text;
  };
  const auto refused = [](const std::string& text, const std::string& part) { BOOST_TEST(has(text, part), text); };
  refused(refusal(
              [&] {
                return module_model{{unit("a", [] { return std::shared_ptr<nn::LinearImpl>(); })}, squared_error};
              },
              first),
          "own model: unit 'a': its factory returned null");
  refused(refusal(
              [&] {
                return module_model{{unit("a", []() -> nn::Linear { throw std::runtime_error("no file"); })},
                                    squared_error};
              },
              first),
          "own model: unit 'a': its factory failed: no file");
  refused(refusal(
              [&] {
                return module_model{
                    {unit("a", shared("key", linear)), unit("b", shared("key", [] { return nn::GELU(); }))},
                    squared_error};
              },
              first),
          "unit 'b' shares 'key' with unit 'a', whose factory makes another type of module");
  double value = 0;
  refused(other([&] {
            return module_model{{unit("a",
                                      [&] {
                                        nn::Linear made(8, 8);
                                        const at::NoGradGuard no_grad;
                                        made->weight.fill_(++value);
                                        return made;
                                      })},
                                squared_error};
          }),
          "unit 'a': wanted the values of 'weight' from the first call of its factory, got others");
  int64_t width = 8;
  refused(other([&] {
            return module_model{{unit("a", [&] { return nn::Linear(width++, 8); })}, squared_error};
          }),
          "wanted 'a.weight' [8, 8] as in the first call of the factory, got 'a.weight' [8, 9]");
}

BOOST_AUTO_TEST_CASE(a_parameter_without_gradient_gets_zero_or_is_an_error_as_configured) {
  struct with_spare : nn::Module {
    with_spare() : used(register_module("used", nn::Linear(4, 3))) {
      spare = register_parameter("spare", at::ones({2}));
    }
    at::Tensor forward(const at::Tensor& x) { return used(x); }
    nn::Linear used;
    at::Tensor spare;
  };
  const auto make = [] { return module_model{{unit("only", std::make_shared<with_spare>())}, squared_error}; };
  const host_batch tensors{at::randn({2, 4}), at::randn({2, 3})};
  const auto backward = [&](bound_modules& m, uint32_t micro) {
    micro_batch batch = batch_of(tensors);
    batch.micro = micro;
    tensor_sink sink(m.model->table(), core::dtype::f32);
    auto runs = m.forward(batch);
    runs[0]->backward(at::full({}, 1.0), sink);
    return sink.gradients;
  };
  bound_modules lenient(make, tensors);
  const auto& table = lenient.model->table();
  const auto spare = std::find_if(table.parameters.begin(), table.parameters.end(),
                                  [](const core::parameter_info& p) { return p.name == "only.spare"; });
  BOOST_TEST_REQUIRE((spare != table.parameters.end()));
  BOOST_TEST(backward(lenient, 0)[static_cast<size_t>(spare - table.parameters.begin())].equal(at::zeros({2})));

  bound_modules strict(make, tensors);
  strict.from->need_all_gradients_in(1);
  BOOST_CHECK_NO_THROW(backward(strict, 0));
  try {
    backward(strict, 1);
    BOOST_ERROR("accepted");
  } catch (const c10::Error& e) {
    BOOST_TEST(has(e.what_without_backtrace(), "parameter only.spare got no gradient"), e.what_without_backtrace());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
