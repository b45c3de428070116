// Declares where a test finds the source tree and the programs of its build. One generated source defines all names
// (troupe_places() in cmake/TroupeTargets.cmake), so that no other object depends on the folder of a clone and ccache
// can reuse the objects of another clone.
#pragma once

namespace troupe::places {

extern const char* const source_dir;  ///< path of the root of the source tree
extern const char* const build_dir;
extern const char* const torch_dir;
extern const char* const troupe_binary;
extern const char* const embed_binary;
extern const char* const own_model_binary;
extern const char* const own_pipeline_binary;
extern const char* const own_layers_binary;
extern const char* const fused_model_binary;  ///< path of the program of examples/own_model.cpp
extern const char* const own_processes_binary;
extern const char* const own_loop_binary;
extern const char* const own_compression_binary;
extern const char* const tensor_files_binary;
extern const char* const host_program_binary;
extern const char* const saver_binary;
extern const char* const worker;         ///< path of the program that acts as a process of a job (tests/cluster)
extern const char* const whole;          ///< path of the library that contains all of Troupe
extern const char* const control_steps;  ///< path of the program whose instructions valgrind counts (tests/control)
extern const char* const cluster_job;    ///< path of examples/cluster.yaml
/// Paths of the object files of the CUDA kernels, separated by semicolons; empty if the build has no nvcc.
extern const char* const kernels_cuda_objects;

}  // namespace troupe::places
