// Tests that a pipeline's layers get the names of the model from which they were cut, or keep their own.
#include "formats/names/layer_names.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/formats/tensors.hpp"

BOOST_AUTO_TEST_SUITE(layer_names)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
using names = std::vector<std::string>;

namespace {

struct named_shape {
  std::string name;
  std::vector<int64_t> shape;
};

/// Returns a pipeline's folder whose tensors all have the same bytes, because the test compares only names.
tensor_source pipeline_of(const std::vector<named_shape>& all, std::string client_state = "null") {
  tensor_source s;
  s.folder = "pipeline";
  s.files = {{"pipeline/data", uint64_t{1} << 20}};
  s.run.client_state = std::move(client_state);
  for (const auto& [name, shape] : all) {
    uint64_t count = 1;
    for (const auto n : shape) count *= static_cast<uint64_t>(n);
    for (const auto kind : {tensor_kind::master, tensor_kind::moment})
      s.tensors.push_back(
          {name, kind, kind == tensor_kind::moment ? "exp_avg" : "", core::dtype::f32, shape, {{0, 0, count, 0, {}}}});
    s.parameter_order.push_back(name);
  }
  check_ok(complete(s));
  auto out = check_ok(with_kept_names(std::move(s)));
  return std::move(*out);
}

std::vector<wanted_tensor> gpt2() {
  std::vector<wanted_tensor> out{{"transformer.wte.weight", {9, 4}}, {"transformer.wpe.weight", {5, 4}}};
  for (const std::string h : {"transformer.h.0.", "transformer.h.1."})
    for (const std::string part : {"ln_1.weight", "ln_1.bias"}) out.push_back({h + part, {4}});
  out.push_back({"transformer.ln_f.weight", {4}});
  out.push_back({"transformer.ln_f.bias", {4}});
  return out;
}

std::vector<named_shape> layers_of(const names& first) {
  std::vector<named_shape> out{{first[0], {9, 4}}, {first[1], {5, 4}}};
  for (const std::string layer : {"2.", "3."})
    for (const std::string part : {"ln_1.weight", "ln_1.bias"}) out.push_back({layer + part, {4}});
  out.push_back({"4.weight", {4}});
  out.push_back({"4.bias", {4}});
  return out;
}

void check_named(const tensor_source& s, const std::vector<wanted_tensor>& wanted) {
  BOOST_TEST(!s.has_layer_names);
  BOOST_TEST(s.tensors.size() == 2 * wanted.size());
  for (const auto& w : wanted)
    for (const char* moment : {"", "exp_avg"}) {
      BOOST_TEST_INFO_SCOPE(moment);
      const auto* t = find_tensor(s, w.name, *moment == 0 ? tensor_kind::master : tensor_kind::moment, moment);
      BOOST_REQUIRE_MESSAGE(t != nullptr, w.name);
      BOOST_TEST(t->shape == w.shape, boost::test_tools::per_element());
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_in_the_models_order_get_the_models_names) {
  // The names vary for the first layer: both tables in one layer, each in a layer of its own, and one of them shared by
  // stages.
  for (const names& first : {names{"0.wte.weight", "0.wpe.weight"},
                             {"0.weight", "1.weight"},
                             {"tied_modules.embed.weight", "1.weight"},
                             {"tied_modules.embed.wte.weight", "tied_modules.embed.wpe.weight"}})
    BOOST_TEST_CONTEXT(first[0]) {
      const auto pipeline = pipeline_of(layers_of(first));
      BOOST_TEST(pipeline.has_layer_names);
      const auto named = check_ok(named_by_layers(pipeline, gpt2()));
      check_named(*named, gpt2());
      BOOST_TEST(named->names_in_files.at("transformer.h.1.ln_1.bias") == "3.ln_1.bias");
      BOOST_TEST(named->names_in_files.at("transformer.wte.weight") == first[0]);
      BOOST_TEST(named->parameter_order[2] == "transformer.h.0.ln_1.weight");
    }
}

BOOST_AUTO_TEST_CASE(layers_of_another_model_keep_their_numbers) {
  const auto good = layers_of({"0.weight", "1.weight"});
  auto wide = good, more = good, fewer = good, strange = good;
  wide[3].shape = {5};
  more.push_back({"5.weight", {9, 4}});
  fewer.pop_back();
  strange[4].name = "3.ln_2.weight";
  for (const auto& other : {wide, more, fewer, strange}) {
    const auto pipeline = pipeline_of(other);
    const auto named = check_ok(named_by_layers(pipeline, gpt2()));
    BOOST_TEST(named->has_layer_names);
    BOOST_TEST((named->tensors == pipeline.tensors));
  }
  const auto why = unnamed_layers(pipeline_of(more), gpt2()).text;
  BOOST_TEST(
      why.find(
          "'pipeline' is a pipeline with unknown names of layers: wanted transformer.wte.weight, "
          "transformer.wpe.weight, transformer.h.0.ln_1.weight, transformer.h.0.ln_1.bias and 4 more, it has 0.weight, "
          "1.weight, 2.ln_1.weight, 2.ln_1.bias and 5 more; map its names with a file of names (--map)") == 0,
      why);
}

BOOST_AUTO_TEST_CASE(kept_prefixes_come_out_of_the_client_state) {
  const auto layers = layers_of({"0.transformer.wte.weight", "0.transformer.wpe.weight"});
  const std::string kept =
      R"("pipeline_layer_prefixes":{"0":"","2":"transformer.h.0.","3":"transformer.h.1.","4":"transformer.ln_f."})";
  const auto named = pipeline_of(layers, "{" + kept + "}");
  check_named(named, gpt2());
  BOOST_TEST(named.run.client_state == "null");
  BOOST_TEST(pipeline_of(layers, R"({"note":1,)" + kept + "}").run.client_state == R"({"note":1})");
  // If the value is not a list of prefixes, it belongs to the client's own state.
  const std::string own = R"({"pipeline_layer_prefixes":[1]})";
  const auto strange = pipeline_of(layers, own);
  BOOST_TEST(strange.has_layer_names);
  BOOST_TEST(strange.run.client_state == own);
}

BOOST_AUTO_TEST_CASE(two_tensors_do_not_get_one_name) {
  auto pipeline = pipeline_of(layers_of({"0.weight", "1.weight"}));
  const auto one = renamed(std::move(pipeline), [](const std::string&) { return std::string("same"); });
  check_failed(one, core::error_kind::bad_input, "appears twice");
}

BOOST_AUTO_TEST_SUITE_END()
