// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if !canImport(ObjectiveC)
// Without Objective-C, Foundation lacks these names, which code that used key-value observation
// contains.

/// The options of an observation, under Foundation's name.
public typealias NSKeyValueObservingOptions = WatchOptions
/// A change, under Foundation's name.
public typealias NSKeyValueObservedChange = WatchedChange
#endif
