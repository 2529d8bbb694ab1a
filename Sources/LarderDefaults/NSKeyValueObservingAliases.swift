// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if !canImport(ObjectiveC)
  // Where there is no Objective-C, Foundation has none of these names, and code that used key-value
  // observation still spells them.

  /// The options of a watch, as Foundation calls them elsewhere.
  public typealias NSKeyValueObservingOptions = WatchOptions
  /// A change, as Foundation calls it elsewhere.
  public typealias NSKeyValueObservedChange = WatchedChange
#endif
