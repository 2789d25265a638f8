/* A long computation that saves when it is asked to, and goes on from there.

       cc -O2 -o saves saves.c
       neuronctl submit … --until-done --checkpoint state.bin ./saves state.bin 100000

   At TERM, it saves after the current step and ends with 75; it also saves every 1000 steps. */

#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct state {
    long step;
    double sum;
};

/* A handler may do little more than this: the loop looks at it. */
static volatile sig_atomic_t asked;

static void ask(int number)
{
    (void)number;
    asked = 1;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Written beside the old one and renamed: whoever is killed in between leaves the old one whole. */
static void save(const char *path, const struct state *state)
{
    char unfinished[4096];
    if (snprintf(unfinished, sizeof unfinished, "%s.tmp", path) >= (int)sizeof unfinished) {
        fprintf(stderr, "%s: too long a path\n", path);
        exit(1);
    }
    int file = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || write(file, state, sizeof *state) != sizeof *state || fsync(file) != 0 ||
        close(file) != 0)
        fail(unfinished);
    if (rename(unfinished, path) != 0)
        fail(path);
}

int main(int count, char **words)
{
    if (count != 3) {
        fprintf(stderr, "usage: saves FILE STEPS\n");
        return 2;
    }
    const char *path = words[1];
    long steps = atol(words[2]);
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line is in the log at once */

    struct sigaction action = {.sa_handler = ask};
    sigaction(SIGTERM, &action, NULL);

    struct state state = {0, 0.0};
    FILE *file = fopen(path, "rb");
    if (file != NULL) {
        if (fread(&state, sizeof state, 1, file) != 1)
            fail(path);
        fclose(file);
        printf("resumed after step %ld\n", state.step);
    }
    while (state.step < steps) {
        struct timespec work = {0, 1000000}; /* your work */
        nanosleep(&work, NULL);
        state.step++;
        state.sum += 1.0 / ((double)state.step * (double)state.step);
        if (asked || state.step % 1000 == 0)
            save(path, &state);
        if (asked && state.step < steps) {
            printf("saved after step %ld\n", state.step);
            return 75;
        }
    }
    printf("done: step %ld, sum %.15f\n", state.step, state.sum);
    return 0;
}
