// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "cli/output_kind.h"

namespace tenon::cli {

/// What one vector a sample is, by the numbers of all samples.

/// Whether they are embeddings, whatever their length: no number stands out from the others, as that of the class does.
bool are_embeddings(const std::vector<std::vector<float>>& samples);

/// Whether they are coordinates, of key points for example: of classes most are unlikely, and one stands out.
bool are_coordinates(const std::vector<std::vector<float>>& samples);

/// Whether no number stands out and all samples are nearly alike, so many numbers a sample at least: where key points
/// are in one crop they are in the next, about, while features and scores of classes differ.
bool are_alike(const std::vector<std::vector<float>>& samples, size_t fewest);

/// Whether they are likelihoods of labels, most of them near 0 or 1, of which some samples have several: of classes
/// each has one.
bool are_labels(const std::vector<std::vector<float>>& samples);

/// One of these; nullopt for classes.
std::optional<OutputKind> kind_of_vectors(const std::vector<std::vector<float>>& samples);

}  // namespace tenon::cli
