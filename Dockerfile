# scr on the CPU, with `scr serve` and the versions of constraints.txt.
#
#     docker build --tag scr .
#     docker run --rm --volume "$PWD:/work" --user "$(id -u):$(id -g)" scr train GRAPH --out runs/one

FROM python:3.11-slim

# The builds of torch without CUDA: a tenth of the size.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu \
    PIP_NO_CACHE_DIR=1

WORKDIR /opt/scr
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m pip install --quiet --no-compile --constraint constraints.txt '.[serve]'

RUN useradd --create-home scr && mkdir /work && chown scr /work
USER scr
# Any user of the host may run it, also one without a home: what is compiled is kept here.
ENV NUMBA_CACHE_DIR=/tmp/numba \
    MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /work
ENTRYPOINT ["scr"]
CMD ["--help"]
