// Tests how names of tensors that PEFT created are recognised, and the messages about them.
#include "formats/names/wrapper_names.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(peft_names)

using namespace troupe::formats;

namespace {
using names = std::vector<std::string_view>;
}

BOOST_AUTO_TEST_CASE(names_of_peft_are_known_under_other_wrappers_and_names_of_models_are_not_taken_for_them) {
  for (const auto* name :
       {"base_model.model.model.norm.weight", "module.base_model.model.lm_head.weight",
        "model.layers.0.self_attn.q_proj.base_layer.weight", "h.0.attn.c_attn.lora_A.default.weight",
        "_orig_mod.h.0.lora_embedding_B.default", "h.0.mlp.ia3_l.default", "score.modules_to_save.x.weight",
        "score.original_module.weight", "h.0.lora_magnitude_vector.default.weight"})
    BOOST_TEST(is_peft_name(name), name);
  for (const auto* name : {"model.norm.weight", "base_model.weight", "transformer.h.0.attn.c_attn.weight",
                           "layers.0.lora.weight", "database_layer.weight", "explora_A.weight"})
    BOOST_TEST(!is_peft_name(name), name);
}

BOOST_AUTO_TEST_CASE(a_model_with_an_adapter_and_an_adapter_alone_are_told_apart) {
  BOOST_TEST(!peft_finding(names{"a.weight", "b.weight"}).has_value());
  BOOST_TEST(*peft_finding(names{"a.weight", "b.base_layer.weight", "b.lora_A.x.weight"}) ==
             "holds adapters beside weights, with tensors such as 'b.base_layer.weight': merge them into these first "
             "(peft's merge_and_unload() and save_pretrained(); for a run of Troupe, `troupe checkpoint to-peft` and "
             "merge-adapter)");
  // PEFT's releases before 0.6 store the weight together with the adapter.
  BOOST_TEST(peft_finding(names{"b.lora_A.x.weight", "b.weight"})->starts_with("holds adapters beside weights"));
  BOOST_TEST(*peft_finding(names{"base_model.model.b.lora_A.weight", "base_model.model.head.weight"}) ==
             "holds a PEFT adapter, not a whole model, with tensors such as 'base_model.model.b.lora_A.weight': merge "
             "it into its base model first (`troupe checkpoint merge-adapter`, or peft's merge_and_unload() and "
             "save_pretrained())");
}

BOOST_AUTO_TEST_SUITE_END()
