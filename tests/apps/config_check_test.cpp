// Tests the report of `troupe config check` about a valid file.
#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(config_check)

using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(a_good_file_is_called_what_it_is) {
  command_folder at;
  const std::string accelerate =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_version: 2}\n";
  at.folder.write("accelerate.yaml", accelerate);
  at.folder.write("accelerate.json", R"({"distributed_type": "FSDP", "num_processes": 2})");
  at.folder.write("deepspeed.yaml", "zero_optimization: {stage: 2}\n");
  at.folder.write("ds_config.json", R"({"zero_optimization": {"stage": 2}})");
  for (const auto& [file, is] : std::vector<std::pair<std::string, std::string>>{
           {"accelerate.yaml", ", as a configuration of Accelerate; a job needs model, data and steps too"},
           {"accelerate.json", ", as a configuration of Accelerate; a job needs model, data and steps too"},
           {"deepspeed.yaml", ", as a DeepSpeed configuration; a job needs model, data and steps too"},
           {"ds_config.json", ", as a DeepSpeed configuration; a job needs model, data and steps too"},
           {"job.yaml", ""}}) {
    const auto did = check_exit(0, at.troupe({"config", "check", file}));
    BOOST_TEST(did.out == file + ": good" + is + "\n");
  }
}

BOOST_AUTO_TEST_CASE(bytes_of_paths_that_a_terminal_obeys_are_printed_as_escapes) {
  const command_folder at;
  const std::string name =
                        "a\x1B[2J\xC2\x9B"
                        "1m\u202E.yaml",
                    shown = "a\\x1b[2J\\u009b1m\\u202e.yaml";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"config", "check", name},
                                             {"checkpoint", "inspect", name},
                                             {"plan", "job.yaml", "--" + name},
                                             {"data", "tokenize", name, "--tokenizer", "bytes", "--output", "t.bin"}}) {
    const auto did = check_exit(2, at.troupe(command));
    BOOST_TEST(did.err.find(shown) != std::string::npos, did.err);
    BOOST_TEST((did.out + did.err).find('\x1B') == std::string::npos, did.err);
    BOOST_TEST(did.err.find("\xC2\x9B") == std::string::npos, did.err);
  }
}

BOOST_AUTO_TEST_CASE(a_tag_that_a_run_refuses_is_refused) {
  const command_folder at;
  for (const char* tag : {"latest", "step-00000010", "model.safetensors"}) {
    const auto did =
        check_exit(2, at.troupe({"config", "check", "job.yaml", "--set", std::string("checkpoint.tag=") + tag}));
    BOOST_TEST(did.err.find("checkpoint.tag: the tag '") != std::string::npos, did.err);
    BOOST_TEST(did.err.find("is not reserved for checkpoint files") != std::string::npos, did.err);
  }
  check_exit(0, at.troupe({"config", "check", "job.yaml", "--set", "checkpoint.tag=global_step{step}"}));
}

BOOST_AUTO_TEST_CASE(a_mask_token_that_an_encoder_cannot_use_is_refused_and_so_is_none) {
  const auto encoder = [](const std::string& model) {
    return replaced(smallest, "model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256",
                    model +
                        ", num_hidden_layers: 1, hidden_size: 16, num_attention_heads: 2, intermediate_size: 24, "
                        "max_position_embeddings: 32, vocab_size: 256");
  };
  const command_folder bert(encoder("model_type: bert")), roberta(encoder("model_type: roberta"));
  const std::vector<std::string> check{"config", "check", "job.yaml"};
  const auto with = [&](const std::string& token) {
    auto out = check;
    out.emplace_back("--set");
    out.push_back("data.masking.mask_token_id=" + token);
    return out;
  };
  const auto refused = [](const finished& did, const std::string& words) {
    check_exit(2, did);
    BOOST_TEST(did.err.find("data.masking.mask_token_id: " + words) != std::string::npos, did.err);
  };
  refused(bert.troupe(check), "wanted the token that replaces masked ones of a bert model, because neither");
  refused(bert.troupe(with("256")), "wanted a token of the model, from 0 to 255, got 256");
  refused(roberta.troupe(with("1")),
          "wanted another token than the padding token 1, to which a roberta model gives no position, got 1");
  check_exit(0, bert.troupe(with("255")));
  check_exit(0, roberta.troupe(with("255")));
}

BOOST_AUTO_TEST_CASE(a_file_that_a_run_refuses_before_it_plans_is_refused_in_the_same_words) {
  const std::string keys =
      "num_hidden_layers: 1, hidden_size: 16, num_attention_heads: 2, intermediate_size: 24, "
      "max_position_embeddings: 32, vocab_size: 256";
  const std::string gpt2 = "model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256";
  const command_folder bert(replaced(smallest, gpt2, "model_type: bert, " + keys)), usual;
  for (const command_folder* at : {&bert, &usual})
    at->folder.write("teacher/config.json",
                     R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 128})");
  struct refusal {
    const command_folder& at;
    std::vector<std::string> set;
    std::string words;
  };
  const std::string mask = "data.masking.mask_token_id=255", none = "sample.tokens=0",
                    learns = "distillation.enabled=true";
  const refusal all[] = {
      {bert,
       {mask, none, learns, "model.teacher=teacher"},
       "distillation.enabled: cannot be combined with a bert model yet; set it to false"},
      {bert,
       {mask, none, "data.packing=none", "data.validation={talks: {text: corpus.txt, form: chat}}"},
       "data.validation: wanted texts for a bert model, which finds masked tokens, got the set talks of the form chat"},
      {usual, {"parallel.tensor=5"}, "parallel.tensor: "},
      {usual, {"parallel.sequence=5"}, "parallel.sequence: "},
      {usual, {learns, "model.teacher=nowhere"}, "model.teacher: "},
      {usual, {learns, "model.teacher=teacher"}, "model.teacher: wanted the model's vocabulary of 256 tokens, got 128"},
      {usual, {"parameter_groups=[{match: nothing_has_this_name, lr: 0.1}]"}, "parameter_groups[0].match: "},
      {usual,
       {"parallel.pipeline=2", "tied_gradients=in_bucket"},
       "tied_gradients: transformer.wte.weight is shared by units of pipeline ranks 0 and 1: wanted per_use, or "},
      {usual, {"data.text=nowhere.txt"}, "nowhere.txt': No such file or directory"},
      {usual, {"data.validation={books: nowhere.txt}"}, "nowhere.txt': No such file or directory"},
      {usual, {"checkpoint.load.path=nowhere"}, "nowhere' does not exist"},
      {usual,
       {"parameter_groups=[{match: '.*', trainable: false}]"},
       "parameter_groups: every parameter is frozen, there is nothing to train"}};
  for (const auto& each : all) {
    std::vector<std::string> check{"config", "check", "job.yaml"}, train{"train", "job.yaml"};
    for (auto* const command : {&check, &train})
      for (const auto& one : each.set) command->insert(command->end(), {"--set", one});
    const auto checked = check_exit(2, each.at.troupe(check)), trained = check_exit(2, each.at.troupe(train));
    BOOST_TEST(has(checked.err, each.words), checked.err);
    const auto begin = trained.err.find(each.words);
    BOOST_REQUIRE_MESSAGE(begin != std::string::npos, trained.err);
    const auto sentence = trained.err.substr(begin, trained.err.find('\n', begin) - begin);
    BOOST_TEST(has(checked.err, sentence), checked.err << " | wanted: " << sentence);
  }
}

BOOST_AUTO_TEST_CASE(a_budget_that_no_plan_meets_and_each_absent_source_are_refused_at_their_keys) {
  const command_folder at;
  const auto checked = [&](const std::string& set) {
    return check_exit(2, at.troupe({"config", "check", "job.yaml", "--set", set})).err;
  };
  const auto budget = checked("cluster.host_memory_budget=100000");
  BOOST_TEST(has(budget, "error: cluster.host_memory_budget: rank 0 needs "), budget);
  const command_folder two(
      replaced(smallest, "{text: corpus.txt}", "{sources: [{text: corpus.txt}, {text: nowhere.txt}]}"));
  const auto source = check_exit(2, two.troupe({"config", "check", "job.yaml"})).err;
  BOOST_TEST(has(source, "error: data.sources[1].text: cannot read '"), source);
  const auto set = checked("data.validation={books: nowhere.txt}");
  BOOST_TEST(has(set, "error: data.validation: the set books: cannot read '"), set);
  at.folder.write("out/checkpoints/note", "");  // a run that has checkpoints of its own loads these
  check_exit(0, at.troupe({"config", "check", "job.yaml", "--set", "checkpoint.load.path=nowhere"}));
}

// The value of an override may have colons, and the name of a group spaces, before the key of a refusal.
BOOST_AUTO_TEST_CASE(a_refusal_is_at_its_key_whatever_text_is_before_the_key) {
  const command_folder at(smallest + R"(compression_training:
  row_pruning:
    shared_parameters: {enabled: true, method: topk, schedule_offset: 0}
    different_groups: {my group: {params: {dense_ratio: 0.5}, modules: [nothing]}}
)");
  const auto group = check_exit(2, at.troupe({"config", "check", "job.yaml"}));
  BOOST_TEST(has(group.err, "error: compression_training.row_pruning.different_groups.\"my group\".modules: wanted "),
             group.err);
  const command_folder usual;
  const auto inlined = check_exit(
      2, usual.troupe({"config", "check", "job.yaml", "--set", "parallel.tensor=2", "--set",
                       R"(tensor_parallel.partition_config={layer_specs: [{patterns: ['.*c_fc\.weight$']}]})"}));
  BOOST_TEST(has(inlined.err, "error: tensor_parallel.partition_config: wanted "), inlined.err);
}

BOOST_AUTO_TEST_CASE(what_follows_from_a_refused_key_is_not_refused_too) {
  const command_folder at;
  const auto did =
      check_exit(2, at.troupe({"config", "check", "job.yaml", "--set", "parallel.tensor=2", "--set",
                               "parallel.sharded_norms=true", "--set", "tensor_parallel.exchange_pieces=2"}));
  BOOST_TEST(has(did.err, "tensor_parallel.exchange_pieces: wanted 1 with parallel.sharded_norms"), did.err);
  BOOST_TEST(!has(did.err, "has no row-parallel layer"), did.err);
}

BOOST_AUTO_TEST_SUITE_END()
