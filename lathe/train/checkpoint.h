#pragma once
// Checkpoints: folders `checkpoints/step-00000050` of a run folder, each complete in itself, and a
// file `checkpoints/latest` that names the one to go on from. docs/checkpoint.md describes them.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/model/config.h"
#include "lathe/numerics/recipe.h"
#include "lathe/optim/optimizer.h"
#include "lathe/parallel/params.h"

namespace lathe::train {

/// What a checkpoint holds beside its tensors (state.json).
struct CheckpointInfo {
  i64 step = 0;        // optimizer steps done
  i64 steps = 0;       // of the whole run
  i64 sequences = 0;   // drawn so far: the whole state of the loader
  i64 tokens = 0;      // targets learned from so far
  double seconds = 0;  // of training so far
  i64 seed = 0;
  std::string recipe, results_hash, tokenizer_hash;
  std::string tokens_hash;  // of the shards; empty in a checkpoint from before it was kept
  std::string moments = "fp32", weights = "master";  // optimizer.moments and .weights
  model::ModelConfig model;                          // resolved
};

/// All that one save writes. Nothing is kept after the call.
struct CheckpointContents {
  CheckpointInfo info;
  const parallel::ParamSet& params;
  std::vector<std::pair<std::string, Tensor>> state;              // of the optimizer
  std::vector<std::pair<std::string, Tensor>> recipe_state = {};  // of the recipe; may be none
  std::string config_toml;                                        // resolved configuration
  std::string recipe_toml;                                        // its whole recipe
  std::string tokenizer_path;                                     // copied; empty: none
};

/// Writes a checkpoint of a run, moves `latest` to it, and then removes all but the newest `keep`.
/// Returns its folder. On any failure throws Error; `latest` then names a whole checkpoint still,
/// and nothing half-written is left.
std::string save_checkpoint(const std::string& run_folder, const CheckpointContents& c, i64 keep);

/// Removes what saves that were cut short left behind.
void remove_unfinished_checkpoints(const std::string& run_folder);

enum class Pick : u8 { latest, previous };

/// The folder of a checkpoint: `path` itself if it is one, else the one that the run folder `path`
/// names as latest, or the newest whole one older than that (those that are damaged are named in a
/// warning). Where nothing names the latest, the only checkpoint is it. Empty when the run has
/// none. Throws Error when `latest` is damaged, names nothing, or is missing beside several
/// checkpoints.
std::string find_checkpoint(const std::string& path, Pick pick = Pick::latest);

/// Makes `checkpoint`, one of the run's own, the latest.
void move_latest(const std::string& run_folder, const std::string& checkpoint);

/// The same for a run that goes on from it. Those behind it that are damaged are removed, with a
/// warning, and of it and those before it all but the newest `keep`.
void go_on_from(const std::string& run_folder, const std::string& checkpoint, i64 keep);

/// A checkpoint whose every file has been found to have the size and hash that its manifest names.
class Checkpoint {
 public:
  /// Throws Error naming the first file that is missing, cut short or changed.
  explicit Checkpoint(std::string folder);

  const std::string& folder() const { return folder_; }
  const CheckpointInfo& info() const { return info_; }
  /// The one it was trained in.
  numerics::Recipe recipe() const;
  /// Empty when the checkpoint has none.
  const std::string& tokenizer_path() const { return tokenizer_path_; }

  /// Throws Error naming the key where moments or weights are stored in another way.
  void check_storage(const std::string& moments, const std::string& weights) const;
  /// Fills every master. Throws Error naming the tensor when names, types or shapes differ.
  void read_weights(parallel::ParamSet& p) const;
  /// Fills every tensor of the optimizer's state, likewise.
  void read_state(optim::Optimizer& o) const;
  /// Fills every tensor of a recipe's state, likewise.
  void read_recipe_state(const std::vector<std::pair<std::string, Tensor>>& state) const;
  /// Fills those of the recipe's state that inference needs.
  void read_histories(const parallel::ParamSet& p) const;
  /// Puts the choices of an adaptive recipe into the table; refresh_work then.
  void apply_choices(const numerics::Recipe& r, parallel::ParamSet& p) const;

 private:
  /// Fills tensors of a recipe's state, of which the checkpoint may hold more.
  void read_some(const std::vector<std::pair<std::string, Tensor>>& state) const;

  // Those that may be missing are empty then.
  std::string folder_, tokenizer_path_, recipe_path_, recipe_state_path_;
  CheckpointInfo info_;
};

/// A model for inference. The parameters are views of `weights`.
struct LoadedModel {
  CheckpointInfo info;
  std::unique_ptr<const numerics::Recipe> recipe;
  std::string folder;          // the checkpoint's
  std::string tokenizer_path;  // inside it; empty: none
  Arena weights;
  parallel::ParamSet params;  // no gradients; call refresh_work before the first product
};

/// Reads the weights of a run folder's latest checkpoint, or of a checkpoint folder. Throws Error
/// when there is none or when it is damaged. A checkpoint that a trainer replaces and removes
/// meanwhile is no error: the next one is read.
LoadedModel load_model(const std::string& path, Pick pick = Pick::latest);

}  // namespace lathe::train
