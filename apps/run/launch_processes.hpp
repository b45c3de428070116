// `troupe train` of a file with `cluster.processes`: this program holds no ranks and loads no LibTorch. It starts the
// processes that train, watches and reaps them. Owns what it is told by the file and by signals; cluster/ supervises.
#pragma once

#include <filesystem>
#include <optional>

namespace troupe::apps {

/// Runs the job to its end, each process as `program` with the same arguments, and gives the exit code. Nothing where
/// the command asks for one process, or is wrong, which `program` says better: then nothing has been done.
std::optional<int> launch_processes(int argc, char** argv, const std::filesystem::path& program);

}  // namespace troupe::apps
