// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The one thing here that needs all of Foundation, for text beyond ASCII in index keys only.
internal import Foundation

/// Text in Unicode's normalisation form C.
func composed(_ text: String) -> String { text.precomposedStringWithCanonicalMapping }
