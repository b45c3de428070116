// Opens a checkpoint as a command needs it: with the description of its model and the model's names, and compares its
// tensors with the description. Leaves what a checkpoint holds to checkpoint/convert/open_source.hpp, and the
// description itself to model_description.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "apps/checkpoint/model_description.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {

/// Opens the checkpoint that `a` names. Reports skipped checkpoints through `a.note`, or on stderr even if the output
/// is quiet. States of an optimizer that numbers its parameters get the names of the model's parameters, in the order
/// of `model_config` or of the checkpoint's own description; if that is missing or contradicts the states, they are
/// left out, and the source's remarks say so. Sets `known` to the description if an optimizer numbers its parameters;
/// otherwise the description is not read.
core::result<formats::tensor_source> open_checkpoint_at(const source_arguments& a,
                                                        const std::filesystem::path& model_config = {},
                                                        std::optional<model_description>* known = nullptr);

/// Returns the error `e`, which arose while the checkpoint of `a` was read. If the checkpoint is damaged, adds to the
/// message the option `a.older_by`, with which an older checkpoint is used instead.
core::error with_way_around(core::error e, const source_arguments& a);

/// An open checkpoint, and the description of the model that its weights belong to.
struct described_checkpoint {
  formats::tensor_source source;
  model_description model;
};

/// Opens the checkpoint that `a` names, with its model by describe_model(). A pipeline's layers get the model's names
/// if they are known: see named_by_layers(). A head that the model ties but that has its own values is untied, with a
/// note; one with the embedding's values becomes a tied name: see settle_tied_head(). Further names of parameters that
/// the model does not have are removed, with a note. Refused: keys of the model's config.json that no table has.
core::result<described_checkpoint> open_described(const source_arguments& a, const std::filesystem::path& model_config);

/// Refuses a checkpoint whose tensors are not the parameters of the model in its config.json: a missing one, an unknown
/// one, one of another shape, one of integers, a pipeline whose layers have no names. For an unknown family, compares
/// only the embedding's shape and the number of layers.
core::result<void> check_parameters(const described_checkpoint& c);
/// Refuses what check_parameters() refuses, and a checkpoint that does not describe its model.
core::result<void> check_described(const described_checkpoint& c);
/// Checks, by check_parameters(), that a source fits the description given by --model-config, for output that contains
/// the tensors under their own names. Further names of a parameter, and a head with values of its own, are not errors.
core::result<void> check_given_description(const source_arguments& a, formats::tensor_source s,
                                           model_description model);

/// Returns the model as commands compute with it: that of config.json, with the soft cap of logits that the
/// checkpoint's run added to it (loss.logit_soft_cap). Refused: what models::parse_model_spec() refuses.
core::result<models::model_spec> computed_model(const described_checkpoint& c);

/// Notes the masks and grids of the checkpoint's run that its weights do not contain, because only `troupe compress
/// --clean` writes them into the weights.
void note_unclean(const source_arguments& a, const formats::tensor_source& s);

/// Opens a checkpoint by open_described() for output that other programs open by the model's names: refuses what
/// check_described() refuses, and calls note_unclean().
core::result<described_checkpoint> open_to_export(const source_arguments& a, const std::filesystem::path& model_config);

/// Notes the buffers that files for other programs omit because the model does not have them, such as a step of the
/// run.
void note_foreign_buffers(const source_arguments& a, const described_checkpoint& c);

/// Returns the name of a tensor in a folder for transformers. Returns nothing for tensors that the folder omits: tied
/// names, buffers that the model does not have, and the factors of rotary positions, which config.json contains.
std::optional<std::string> exported_name(const described_checkpoint& c, const std::string& name);

}  // namespace troupe::apps
