// The header of programs that read and write checkpoints without a session: opening any format (open_source), reading
// elements (source_reader) or all weights (state_dict), writing weights (weights_export) or DeepSpeed's folders
// (reshape), and DeepSpeed's own views of its folders (checkpoint_index, state_dict_factory).
#pragma once

#include "checkpoint/convert/open_source.hpp"
#include "checkpoint/convert/reshape.hpp"
#include "checkpoint/convert/weights_export.hpp"
#include "formats/deepspeed/checkpoint_index.hpp"
#include "formats/deepspeed/state_dict_factory.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/state_dict.hpp"
