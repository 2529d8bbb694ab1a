// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// An object whose properties can be observed by key path.
///
/// ```swift
/// final class Player: PropertyWatchable {
///   @Watched var volume = 0.5
///   @Watched var title: String?
/// }
///
/// let player = Player()
/// player.watch(\.title) { player, change in
///   print(change.newValue ?? nil ?? "nothing")
/// }
/// ```
///
/// Observable properties are ``Watched`` properties, including inherited ones, and computed
/// properties that read them, of this object or of others. ``Defaults`` are observable too. Their
/// properties, and properties of `Sendable` objects that read defaults, also report changes by other
/// processes.
///
/// **Calls of handlers.** A change of a ``Watched`` property runs its handlers on the changing
/// thread, before the assignment returns, in the order of their registration, also if the new value
/// equals the old one. A change of a default by any process, including this one, runs them on a
/// thread of Swift's cooperative pool soon after the commit, one change at a time, with the newest
/// value only, and not if the stored value is equal.
///
/// **Permitted calls.** A handler may call anything, for example end observations, release the
/// object, or close the defaults that it observes. It is not called for changes on its thread while
/// it runs: a handler that sets its property is not called for that change; other handlers are. The
/// same applies to a default, whose change is reported later. A handler that ends its observation is
/// not called again. Two handlers that answer each other's change of a default run forever.
///
/// **Lifetime.** An observation does not retain the object and ends with it. Values that the handler
/// captures are retained until then: use the object that it receives, because a handler that captures
/// the object keeps it alive until the observation ends. An observation of a source that outlives the
/// object releases the captured values at the source's next change, when other observations are added
/// to it, or when the object ends its observations in its `deinit`. A source retains at most twice the
/// number of live observations and 16 more.
public protocol PropertyWatchable: AnyObject {}

/// The calls of a handler and their arguments. The new value is always included.
public struct WatchOptions: OptionSet, Sendable, Hashable {
  /// The bits, as in `NSKeyValueObservingOptions`.
  public let rawValue: UInt
  /// Creates options from their bits.
  public init(rawValue: UInt) { self.rawValue = rawValue }

  /// Include the new value, which is always included.
  public static let new = WatchOptions(rawValue: 1)
  /// Include the value before the change. For defaults, that is the last observed value.
  public static let old = WatchOptions(rawValue: 2)
  /// Call the handler inside `watch` too.
  public static let initial = WatchOptions(rawValue: 4)
  /// Call the handler before each change too, with ``WatchedChange/isPrior``. For defaults, which
  /// other processes change, that call occurs immediately before the call for the change.
  public static let prior = WatchOptions(rawValue: 8)
}

/// A change, as passed to a handler.
public struct WatchedChange<Value> {
  /// The new value, or `nil` before the change.
  public let newValue: Value?
  /// The value before the change, with ``WatchOptions/old``.
  public let oldValue: Value?
  /// Whether the call precedes the change.
  public let isPrior: Bool
}

extension WatchedChange: Sendable where Value: Sendable {}

/// A reference to an observation.
public struct PropertyWatcherInfo: Sendable {
  /// The identifier that the caller passed, or one generated from the source location.
  public let id: String
  /// Whether the identifier was generated from the source location.
  public let isAutomatic: Bool
  private weak var observation: (any Observation)?

  init(_ observation: any Observation) {
    id = observation.id.text
    isAutomatic = observation.id.file != nil
    self.observation = observation
  }

  /// Whether the handler can still be called. It is `false` from the start if the property reads no
  /// observable source.
  public var isWatching: Bool { observation?.isAttached ?? false }

  /// Ends the observation. A second call has no effect.
  public func unwatch() { observation?.end() }
}

extension PropertyWatchable {
  /// Runs a handler after each change of a property.
  ///
  /// - Parameters:
  ///   - id: What to call the watch. An object has one watch of a property under an id; a second
  ///     one takes its place. Without it, the place in the source is the id: a line that runs again
  ///     does not add up.
  ///   - options: See ``WatchOptions``.
  ///   - changeHandler: Given the object and the change. It runs where the object is changed.
  @discardableResult
  public func watch<Value>(
    _ keyPath: KeyPath<Self, Value>, _file: String = #fileID, _function: String = #function,
    _line: Int = #line, _column: Int = #column, id: String? = nil,
    options: WatchOptions = .new,
    changeHandler: @escaping (Self, WatchedChange<Value>) -> Void
  ) -> PropertyWatcherInfo {
    let id = watchID(id, _file, _function, _line, _column)
    return startWatch(keyPath, id, options, isShared: false, changeHandler)
  }

  /// Runs a handler after each change of a property.
  @discardableResult
  public func watch<Value>(
    _ keyPath: KeyPath<Self, Value>, _file: String = #fileID, _function: String = #function,
    _line: Int = #line, _column: Int = #column, id: String? = nil,
    options: WatchOptions = .new, changeHandler: @escaping () -> Void
  ) -> PropertyWatcherInfo {
    let id = watchID(id, _file, _function, _line, _column)
    return startWatch(keyPath, id, options, isShared: false) { _, _ in changeHandler() }
  }
}

extension PropertyWatchable where Self: Sendable {
  /// Runs a handler after each change of a property, on the thread of the change.
  ///
  /// Properties that read ``Defaults`` also report changes by other processes.
  @discardableResult
  public func watch<Value>(
    _ keyPath: any KeyPath<Self, Value> & Sendable, _file: String = #fileID,
    _function: String = #function, _line: Int = #line, _column: Int = #column, id: String? = nil,
    options: WatchOptions = .new,
    changeHandler: @escaping @Sendable (Self, WatchedChange<Value>) -> Void
  ) -> PropertyWatcherInfo {
    let id = watchID(id, _file, _function, _line, _column)
    return startWatch(keyPath, id, options, isShared: true, changeHandler)
  }

  /// Runs a handler after each change of a property, on the thread of the change.
  @discardableResult
  public func watch<Value>(
    _ keyPath: any KeyPath<Self, Value> & Sendable, _file: String = #fileID,
    _function: String = #function, _line: Int = #line, _column: Int = #column, id: String? = nil,
    options: WatchOptions = .new, changeHandler: @escaping @Sendable () -> Void
  ) -> PropertyWatcherInfo {
    let id = watchID(id, _file, _function, _line, _column)
    return startWatch(keyPath, id, options, isShared: true) { _, _ in changeHandler() }
  }
}
