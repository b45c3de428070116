// GPT-2 segment by segment.
#include <boost/test/unit_test.hpp>

#include "model_fixture.hpp"

namespace troupe::models {

static const std::string tiny =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 16, "vocab_size": 50,
        "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})";

BOOST_AUTO_TEST_SUITE(gpt2)

BOOST_AUTO_TEST_CASE(every_parameter_gets_its_derivative) {
  bound_model model(tiny, core::dtype::f64, 2, 8);
  owned_batch data(2, 8, 50);
  tensor_sink sink(model.model->table(), core::dtype::f64);
  model.step(data.batch, sink);
  // a central difference along a random direction of each parameter
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  for (uint32_t p = 0; p < model.weights.size(); ++p) {
    const auto n = model.weights[p].numel();
    std::vector<double> direction(static_cast<size_t>(n)), start(model.weights[p].const_data_ptr<double>(),
                                                                model.weights[p].const_data_ptr<double>() + n);
    for (auto& d : direction) d = normal(random);
    const auto loss_at = [&](double h) {
      auto* w = model.weights[p].mutable_data_ptr<double>();
      for (int64_t i = 0; i < n; ++i) w[i] = start[static_cast<size_t>(i)] + h * direction[static_cast<size_t>(i)];
      tensor_sink ignored(model.model->table(), core::dtype::f64);
      return model.step(data.batch, ignored);
    };
    const double h = 1e-5, slope = (loss_at(h) - loss_at(-h)) / (2 * h);
    loss_at(0);
    double wanted = 0;
    const auto* g = sink.gradients[p].const_data_ptr<double>();
    for (int64_t i = 0; i < n; ++i) wanted += g[i] * direction[static_cast<size_t>(i)];
    BOOST_TEST(std::abs(slope - wanted) <= 1e-6 * (1 + std::abs(wanted)),
               model.model->table().parameters[p].name << ": " << slope << " against " << wanted);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
