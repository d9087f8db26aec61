"""Tetris in a terminal: ``python -m examples.tetris``. One tasklet reads keys, another lets the piece fall.

Left and right move, up turns, down falls faster, the space bar drops, q quits.
"""

import curses
import random
import sys

import syncless

WIDTH, HEIGHT = 10, 20
PIECES = ["XXXX", "XX/XX", "XXX/.X.", "XXX/X..", "XXX/..X", ".XX/XX.", "XX./.XX"]


def cells_of(shape):
    return [(x, y) for y, row in enumerate(shape.split("/")) for x, cell in enumerate(row) if cell == "X"]


class Game:
    def __init__(self, window):
        self.window = window
        self.lines = 0
        self.filled = set()
        self.over = syncless.Event()
        self.begin_piece()

    def begin_piece(self):
        self.cells = cells_of(random.choice(PIECES))
        self.x, self.y = WIDTH // 2 - 1, 0
        if not self.fits(self.cells, self.x, self.y):
            self.over.set()

    def fits(self, cells, left, top):
        places = {(left + x, top + y) for x, y in cells}
        return not places & self.filled and all(0 <= x < WIDTH and y < HEIGHT for x, y in places)

    def move(self, right):
        if self.fits(self.cells, self.x + right, self.y):
            self.x += right

    def turn(self):
        height = max(y for _, y in self.cells)
        turned = [(height - y, x) for x, y in self.cells]
        if self.fits(turned, self.x, self.y):
            self.cells = turned

    def fall(self):
        """Let the piece fall by one row and return True, or begin the next piece and return False."""
        if self.fits(self.cells, self.x, self.y + 1):
            self.y += 1
            return True
        self.filled |= {(self.x + x, self.y + y) for x, y in self.cells}
        full = [y for y in range(HEIGHT) if all((x, y) in self.filled for x in range(WIDTH))]
        for line in full:
            self.filled = {(x, y + (y < line)) for x, y in self.filled if y != line}
        self.lines += len(full)
        self.begin_piece()
        return False

    def draw(self):
        piece = {(self.x + x, self.y + y) for x, y in self.cells}
        for y in range(HEIGHT):
            row = "".join("[]" if (x, y) in self.filled | piece else " ." for x in range(WIDTH))
            self.window.addstr(y, 0, f"<!{row}!>")
        self.window.addstr(HEIGHT, 0, f"  {self.lines} lines")
        self.window.refresh()

    def live(self):
        """Run the tasklet that lets the piece fall."""
        while not self.over.wait(max(0.1, 0.6 - 0.03 * self.lines)):
            self.fall()
            self.draw()

    def read_keys(self):
        """Run the tasklet that reads keys."""
        keys = {
            curses.KEY_LEFT: lambda: self.move(-1),
            curses.KEY_RIGHT: lambda: self.move(1),
            curses.KEY_UP: self.turn,
            curses.KEY_DOWN: self.fall,
            ord(" "): self.drop,
            ord("q"): self.over.set,
        }
        while syncless.wait_readable(sys.stdin):
            while (key := self.window.getch()) >= 0:
                if key in keys and not self.over.is_set():
                    keys[key]()
                    self.draw()

    def drop(self):
        while self.fall():
            pass


def main(window):
    curses.curs_set(0)
    window.nodelay(True)  # getch() is called only when a key is available
    game = Game(window)
    game.draw()
    tasklets = [syncless.spawn(game.read_keys), syncless.spawn(game.live)]
    game.over.wait()
    for tasklet in tasklets:
        tasklet.kill()
    return game.lines


if __name__ == "__main__":
    print(f"Game over: {curses.wrapper(main)} lines")
