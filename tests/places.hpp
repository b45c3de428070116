// Where a test finds this tree and the programs of its build. One generated source defines all names (troupe_places()
// in cmake/TroupeTargets.cmake), so that no other object depends on the folder of a clone, and ccache finds them again.
#pragma once

namespace troupe::places {

extern const char* const source_dir;  ///< the root of the sources
extern const char* const build_dir;
extern const char* const torch_dir;
extern const char* const troupe_binary;
extern const char* const embed_binary;
extern const char* const own_model_binary;
extern const char* const own_pipeline_binary;
extern const char* const own_layers_binary;
extern const char* const own_processes_binary;
extern const char* const own_compression_binary;
extern const char* const tensor_files_binary;
extern const char* const host_program_binary;
extern const char* const saver_binary;
extern const char* const worker;                ///< plays a process of a job (tests/cluster)
extern const char* const whole;                 ///< a library with everything there is
extern const char* const control_steps;         ///< the program whose instructions valgrind counts
extern const char* const cluster_job;           ///< examples/cluster.yaml
extern const char* const kernels_cuda_objects;  ///< of the CUDA twins, between semicolons; empty where there is no nvcc

}  // namespace troupe::places
