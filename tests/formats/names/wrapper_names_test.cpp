// Tests tensor names that contain parts added by wrappers of modules, in a source of any format.
#include "formats/names/wrapper_names.hpp"

#include "checkpoint/convert/open_source.hpp"
#include "formats/names/name_map.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(wrapper_names)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;
using core::dtype;

namespace {

std::vector<std::string> names_of(const tensor_source& s) {
  std::vector<std::string> out;
  for (const auto& t : s.tensors) out.push_back(t.name);
  return out;
}

core::result<tensor_source> opened_with(const scratch_folder& at, const std::vector<std::string>& names,
                                        const core::name_lines& map = {}) {
  std::vector<owned_tensor> tensors;
  for (const auto& name : names) tensors.emplace_back(name, dtype::f32, std::vector<int64_t>{2});
  check_ok(write_weights_folder(at.path(), all_to_write(tensors)));
  return open_source(at.path(), {.map = map});
}

}  // namespace

BOOST_AUTO_TEST_CASE(parts_of_wrappers_go_wherever_they_stand) {
  for (const auto& [name, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"_orig_mod.model.norm.weight", "model.norm.weight"},
           {"model.layers.0._orig_mod.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"},
           {"module._orig_mod.lm_head.weight", "lm_head.weight"},
           {"_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module._checkpoint_wrapped_module.x",
            "model.layers.0.x"},
           {"_forward_module.model.x", "model.x"},
           {"a.module.b", "a.b"},
           {"a.module", "a.module"},
           {"my_module.b", "my_module.b"},
           {"tied_modules.embed.weight", "tied_modules.embed.weight"}})
    BOOST_TEST(without_wrappers(name) == wanted);
  BOOST_TEST(bare_name("_fsdp_wrapped_module.transformer.h.0._checkpoint_wrapped_module.ln_1.bias") == "h.0.ln_1.bias");
}

BOOST_AUTO_TEST_CASE(a_source_has_the_models_names_and_says_so) {
  const scratch_folder at;
  const auto s =
      check_ok(opened_with(at, {"_orig_mod.wte.weight", "_orig_mod.h.0._checkpoint_wrapped_module.ln.weight"}));
  BOOST_TEST(names_of(*s) == (std::vector<std::string>{"h.0.ln.weight", "wte.weight"}),
             boost::test_tools::per_element());
  BOOST_TEST(s->names_in_files.at("wte.weight") == "_orig_mod.wte.weight");
  BOOST_REQUIRE(s->remarks.size() == 1U);
  BOOST_TEST(s->remarks[0] ==
             "removed from the names: _checkpoint_wrapped_module, _orig_mod, which wrappers of modules add");
}

BOOST_AUTO_TEST_CASE(names_stay_where_two_tensors_would_get_one) {
  const scratch_folder at;
  const auto s = check_ok(opened_with(at, {"module.a", "a", "module.b"}));
  BOOST_TEST(names_of(*s) == (std::vector<std::string>{"a", "module.a", "module.b"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rules_of_a_person_may_speak_of_the_names_in_the_file) {
  const scratch_folder at;
  const core::name_lines own{"map.yaml", {{false, "module\\.wte\\.(.*)", "embedding.\\1", 1}}};
  const core::name_lines models{"map.yaml", {{false, "wte\\.(.*)", "embedding.\\1", 1}}};
  for (const auto& map : {own, models}) {
    const auto s = check_ok(opened_with(at, {"module.wte.weight", "module.wpe.weight"}, map));
    BOOST_TEST(names_of(*s) == (std::vector<std::string>{"embedding.weight", "wpe.weight"}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
